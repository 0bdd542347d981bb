#include "common/rate_limit.hpp"

#include <gtest/gtest.h>

namespace peercache {
namespace {

using namespace std::chrono_literals;
const auto start = rate_limit::time_point(1h);

TEST(rate_limit, gives_the_burst_at_first_and_then_so_much_a_second) {
  rate_limit limit(100, 50);
  EXPECT_EQ(limit.left(start), 50u);
  limit.spend(50);
  EXPECT_EQ(limit.left(start), 0u);
  EXPECT_EQ(limit.left(start + 100ms), 10u);
  EXPECT_EQ(limit.left(start + 10s), 50u) << "never more than the burst";
}

TEST(rate_limit, pays_back_what_was_spent_beyond_it) {
  rate_limit limit(100, 50);
  EXPECT_EQ(limit.left(start), 50u);
  limit.spend(150);
  EXPECT_EQ(limit.left(start + 999ms), 0u);
  EXPECT_EQ(limit.left(start + 1100ms), 10u);
}

TEST(rate_limit, a_clock_that_stands_still_or_goes_back_gives_nothing) {
  rate_limit limit(100, 50);
  limit.left(start);
  limit.spend(50);
  EXPECT_EQ(limit.left(start - 1s), 0u);
  EXPECT_EQ(limit.left(start), 0u);
}

TEST(rate_limit, zero_a_second_is_no_limit) {
  rate_limit limit;
  limit.spend(1u << 30);
  EXPECT_EQ(limit.left(start), UINT64_MAX);
}

} // namespace
} // namespace peercache
