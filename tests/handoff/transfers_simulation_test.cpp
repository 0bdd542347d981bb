#include "tests/handoff/transfer_world.hpp"

#include <gtest/gtest.h>

namespace peercache::handoff::transfers_test {
namespace {

TEST(transfers, between_two_workers_bring_no_wrong_byte_and_touch_no_memory_after_their_end) {
  transfer_world::counts seen;
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    transfer_world world(seed);
    for (int i = 0; i < 400 && world.fault().empty(); ++i)
      world.step();
    world.finish();
    ASSERT_EQ(world.fault(), "") << "seed " << seed;
    seen.done += world.counted().done;
    seen.failed += world.counted().failed;
    seen.timed_out += world.counted().timed_out;
    seen.dropped += world.counted().dropped;
    seen.cuts += world.counted().cuts;
    seen.unregistered += world.counted().unregistered;
  }
  EXPECT_GT(seen.done, 5000u);
  EXPECT_GT(seen.failed, 500u);
  EXPECT_GT(seen.timed_out, 500u);
  EXPECT_GT(seen.dropped, 50u);
  EXPECT_GT(seen.cuts, 500u);
  EXPECT_GT(seen.unregistered, 500u);
}

} // namespace
} // namespace peercache::handoff::transfers_test
