#include "common/beat_time.hpp"

#include <gtest/gtest.h>

namespace peercache {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

TEST(beat_time, beats_come_at_multiples_of_their_period) {
  const steady_clock::time_point zero{};
  EXPECT_EQ(next_beat(zero + 1ms, 500ms), zero + 500ms);
  EXPECT_EQ(next_beat(zero + 499ms, 500ms), zero + 500ms);
  EXPECT_EQ(next_beat(zero + 500ms, 500ms), zero + 1000ms);
  EXPECT_EQ(next_beat(zero + 1300ms, 250ms), zero + 1500ms);
}

} // namespace
} // namespace peercache
