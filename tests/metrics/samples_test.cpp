#include "metrics/samples.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>
#include <string>

namespace peercache::metrics::samples_test {
namespace {

latency_snapshot latency_of(std::initializer_list<std::uint64_t> durations_ns) {
  latency_histogram latency;
  for (const auto ns : durations_ns)
    latency.record_ns(ns);
  return latency.snapshot();
}

TEST(samples, a_number_is_what_was_set_last_plus_what_was_added) {
  samples now;
  EXPECT_EQ(now.value(metric::pool_pages), 0) << "nobody said it";
  now.set(metric::pool_pages, 7);
  now.set(metric::pool_pages, 3);
  now.add(metric::evictions_total);
  now.add(metric::evictions_total, 4);
  now.add(metric::hits_total, {"disk"}, 2);
  EXPECT_EQ(now.count(metric::pool_pages), 3u);
  EXPECT_EQ(now.count(metric::evictions_total), 5u);
  EXPECT_EQ(now.count(metric::hits_total, {"disk"}), 2u);
  EXPECT_EQ(now.count(metric::hits_total, {"own_host"}), 0u);
}

TEST(samples, seconds_are_read_in_milliseconds) {
  samples now;
  now.set(metric::uptime_seconds, 1234.567);
  EXPECT_EQ(now.milliseconds(metric::uptime_seconds), 1'234'567u);
}

/// Another process may report any number as the value of a count.
TEST(samples, a_count_beyond_64_bits_is_the_nearest_one) {
  samples now;
  now.set(metric::pool_pages, 1e300);
  EXPECT_EQ(now.count(metric::pool_pages), UINT64_MAX);
  now.set(metric::pool_pages, -1);
  EXPECT_EQ(now.count(metric::pool_pages), 0u);
}

TEST(samples, a_word_that_is_too_long_is_cut) {
  samples now;
  now.set(metric::build_info, {std::string(word_bytes_max + 1, 'v')}, 1);
  const auto& which = now.values().begin()->first;
  EXPECT_EQ(which.words[0], std::string(word_bytes_max, 'v'));
  EXPECT_EQ(now.count(metric::build_info, {std::string(word_bytes_max + 9, 'v')}), 1u);
}

TEST(samples, newer_ones_replace_what_they_have_and_leave_the_rest) {
  samples now, newer;
  now.set(metric::pool_pages, 1);
  now.set(metric::members, 2);
  now.set(metric::op_seconds, {"get"}, latency_of({10}));
  newer.set(metric::pool_pages, 9);
  newer.set(metric::op_seconds, {"get"}, latency_of({10, 20}));
  now.take(newer);
  EXPECT_EQ(now.count(metric::pool_pages), 9u);
  EXPECT_EQ(now.count(metric::members), 2u);
  EXPECT_EQ(now.latency(metric::op_seconds, {"get"}).count, 2u);
}

TEST(samples, of_moments_the_latest_counts) {
  samples first, second;
  first.set(metric::handoff_last_failure_seconds, {"decode-1", "no memory"}, 1'700'000'000);
  second.set(metric::handoff_last_failure_seconds, {"decode-1", "no memory"}, 1'700'000'007);
  for (auto [earlier, later] : {std::pair(first, second), {second, first}}) {
    earlier.add(later);
    EXPECT_EQ(earlier.count(metric::handoff_last_failure_seconds, {"decode-1", "no memory"}),
              1'700'000'007u);
  }
}

TEST(samples, those_of_several_add_up_with_their_latencies) {
  samples sum, more;
  sum.set(metric::sessions, 1);
  more.set(metric::sessions, 2);
  more.set(metric::rdma_errors_total, {"mlx5_0/1", "flushed"}, 3);
  sum.set(metric::op_seconds, {"get"}, latency_of({10}));
  more.set(metric::op_seconds, {"get"}, latency_of({1000, 2000}));
  sum.add(more);
  EXPECT_EQ(sum.count(metric::sessions), 3u);
  EXPECT_EQ(sum.count(metric::rdma_errors_total, {"mlx5_0/1", "flushed"}), 3u);
  const auto latency = sum.latency(metric::op_seconds, {"get"});
  EXPECT_EQ(latency.count, 3u);
  EXPECT_EQ(latency.max_ns, 2000u);
}

TEST(samples, of_one_that_is_gone_only_totals_count) {
  samples now;
  now.set(metric::sessions, 1);
  now.set(metric::evictions_total, 2);
  now.zero_gauges();
  EXPECT_EQ(now.values().at({metric::sessions, {}}), 0) << "and a scrape shows that";
  EXPECT_EQ(now.count(metric::evictions_total), 2u);
}

TEST(samples, beyond_the_limit_of_series_nothing_new_comes_in) {
  samples now;
  for (std::size_t i = 0; i < samples::series_max + 3; ++i)
    now.set(metric::build_info, {std::to_string(i)}, 1);
  EXPECT_EQ(now.values().size(), samples::series_max);
  now.set(metric::op_seconds, {"get"}, latency_of({10}));
  EXPECT_TRUE(now.latencies().empty());
  now.set(metric::build_info, {"0"}, 5);
  EXPECT_EQ(now.count(metric::build_info, {"0"}), 5u) << "it was there";
}

TEST(samples_death, what_the_table_does_not_know_is_a_fault_of_ours) {
  samples now;
  EXPECT_DEATH(now.set(metric::hits_total, {"the_moon"}, 1), "may_have");
  EXPECT_DEATH(now.set(metric::hits_total, 1), "labels.size");
  EXPECT_DEATH(now.set(metric::op_seconds, {"get"}, 1), "histogram");
  EXPECT_DEATH(now.set(metric::hits_total, {"disk"}, latency_of({1})), "histogram");
}

} // namespace
} // namespace peercache::metrics::samples_test
