#include "common/test_guards.hpp"
#include "tests/scenario/handoff/handoff_world.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

namespace peercache::handoff::test {
namespace {

#ifdef PEERCACHE_SANITIZED
constexpr std::uint64_t seeds_by_default = 60;
#else
constexpr std::uint64_t seeds_by_default = 300;
#endif
constexpr std::uint64_t seeds_tried = 200;

std::uint64_t seeds_of_environment() {
  const char* seeds = std::getenv("PEERCACHE_SCENARIO_SEEDS");
  return seeds != nullptr ? std::strtoull(seeds, nullptr, 10) : seeds_by_default;
}

TEST(handoff, never_succeeds_with_a_wrong_byte_nor_writes_to_what_was_given_back) {
  const auto seeds = seeds_of_environment();
  handoff_world::counts all;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    handoff_world world(seed);
    ASSERT_EQ(world.run(), "") << "seed " << seed;
    all += world.counted();
  }
  std::printf(
      "[ measured ] %llu worlds: %llu rooms succeeded, %llu failed, %llu came again after a "
      "success, %llu ends by time; %llu had states, %llu pipeline stages, %llu CP shares\n",
      static_cast<unsigned long long>(seeds), static_cast<unsigned long long>(all.succeeded),
      static_cast<unsigned long long>(all.failed), static_cast<unsigned long long>(all.retracted),
      static_cast<unsigned long long>(all.timed_out),
      static_cast<unsigned long long>(all.with_states),
      static_cast<unsigned long long>(all.with_stages),
      static_cast<unsigned long long>(all.with_cp_shares));
  EXPECT_GT(all.succeeded, 5 * seeds);
  EXPECT_GT(all.failed, 2 * seeds);
  EXPECT_GT(all.retracted, seeds);
  EXPECT_GT(all.with_states, seeds);
  EXPECT_GT(all.with_stages, seeds / 2);
  EXPECT_GT(all.with_cp_shares, seeds / 10);
}

TEST(handoff, the_seed_of_the_environment_goes_well) {
  const char* seed = std::getenv("PEERCACHE_SCENARIO_SEED");
  handoff_world world(seed != nullptr ? std::strtoull(seed, nullptr, 10) : 1);
  EXPECT_EQ(world.run(), "");
}

/// Runs one seed after another with the guard `off` switched off, until a run shows this fault.
/// With the guard on, the run of that seed must go well.
void expect_needed(guard off, const std::string& fault) {
  for (std::uint64_t seed = 1; seed <= seeds_tried; ++seed) {
    guard_switched_off scope(off);
    if (handoff_world(seed).run().find(fault) == std::string::npos)
      continue;
    set_guard(off, true);
    EXPECT_EQ(handoff_world(seed).run(), "") << "seed " << seed;
    std::printf("[ measured ] without the guard seed %llu fails first\n",
                static_cast<unsigned long long>(seed));
    return;
  }
  ADD_FAILURE() << "nothing went wrong in " << seeds_tried << " worlds without it";
}

TEST(handoff_guards, without_the_generation_bytes_are_wrong) {
  expect_needed(guard::generation, "with a wrong");
}

TEST(handoff_guards, without_the_fence_bytes_are_wrong) {
  expect_needed(guard::fence, "with a wrong");
}

TEST(handoff_guards, without_the_pin_memory_is_unmapped_while_it_is_sent) {
  expect_needed(guard::pin, "memory that is unmapped");
}

TEST(handoff_guards, without_quiet_pages_are_written_after_they_were_given_back) {
  expect_needed(guard::quiet, "after it was given back");
}

TEST(handoff_guards, without_all_pieces_a_room_succeeds_with_what_has_not_arrived) {
  expect_needed(guard::all_pieces, "with a wrong");
}

} // namespace
} // namespace peercache::handoff::test
