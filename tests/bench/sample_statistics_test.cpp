#include "bench/sample_statistics.hpp"

#include <array>
#include <gtest/gtest.h>

namespace peercache::bench {

TEST(sample_statistics, the_median_is_the_middle_or_the_mean_of_the_two_middle_ones) {
  EXPECT_EQ(median(std::array{3.0, 1.0, 2.0}), 2.0);
  EXPECT_EQ(median(std::array{4.0, 1.0, 2.0, 3.0}), 2.5);
  EXPECT_EQ(median({}), 0.0);
}

TEST(sample_statistics, a_percentile_is_a_value_that_was_measured) {
  std::vector<double> values;
  for (int i = 100; i > 0; --i)
    values.push_back(i);
  EXPECT_EQ(percentile(values, 0.50), 50.0);
  EXPECT_EQ(percentile(values, 0.99), 99.0);
  EXPECT_EQ(percentile(values, 1.0), 100.0);
  EXPECT_EQ(percentile(std::array{7.0}, 0.01), 7.0);
}

TEST(sample_statistics, one_slow_round_does_not_move_the_ratio) {
  interleaved_rounds rounds;
  rounds.add({200, 1, {10}}, {100, 1, {20}});
  rounds.add({200, 1, {10}}, {100, 1, {20}});
  rounds.add({200, 50, {900}}, {100, 1, {20}});
  EXPECT_EQ(rounds.throughput_ratio(), 2.0);
  EXPECT_EQ(rounds.latency_ratio(), 0.5);
  EXPECT_EQ(rounds.operation_per_second(), 200.0);
  EXPECT_EQ(rounds.limit_per_second(), 100.0);
  EXPECT_EQ(rounds.operation_p50_us(), 10.0);
}

TEST(sample_statistics, a_mood_of_the_machine_that_both_meet_cancels_out) {
  interleaved_rounds rounds;
  for (double slowness : {1.0, 2.0, 5.0})
    rounds.add({300, slowness, {1}}, {200, slowness, {1}});
  EXPECT_EQ(rounds.throughput_ratio(), 1.5);
}

} // namespace peercache::bench
