#include "metrics/latency_histogram.hpp"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <random>
#include <thread>
#include <vector>

namespace peercache::metrics {
namespace {

using durations = std::vector<std::uint64_t>;

latency_snapshot recorded(const durations& values) {
  latency_histogram histogram;
  for (const std::uint64_t value : values)
    histogram.record_ns(value);
  return histogram.snapshot();
}

/// Random durations over twelve orders of magnitude, with repeats and exact powers of two among
/// them.
durations random_samples(std::mt19937_64& random) {
  durations values(1 + random() % 3000);
  for (std::uint64_t& value : values) {
    const unsigned bits = random() % 41;
    value =
        random() % 8 == 0 ? std::uint64_t{1} << bits : random() & ((std::uint64_t{1} << bits) - 1);
  }
  return values;
}

std::uint64_t exact_quantile(const durations& sorted, double fraction) {
  const double wanted = std::ceil(fraction * static_cast<double>(sorted.size()));
  return sorted[std::clamp<std::size_t>(static_cast<std::size_t>(wanted), 1, sorted.size()) - 1];
}

TEST(latency_histogram, quantiles_are_within_a_thirtysecond_above_the_exact_ones) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random{seed};
    durations values = random_samples(random);
    const latency_snapshot taken = recorded(values);
    std::ranges::sort(values);
    for (const double fraction : {0.0, 0.01, 0.5, 0.9, 0.99, 0.999, 1.0}) {
      const std::uint64_t exact = exact_quantile(values, fraction);
      const std::uint64_t answer = taken.quantile_ns(fraction);
      ASSERT_GE(answer, exact) << fraction;
      ASSERT_LE(answer, exact + exact / 32 + 1) << fraction;
    }
    ASSERT_EQ(taken.quantile_ns(1.0), values.back());
  }
}

TEST(latency_histogram, counts_at_powers_of_two_are_exact) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random{seed};
    const durations values = random_samples(random);
    const latency_snapshot taken = recorded(values);
    for (unsigned bits = 0; bits < 42; ++bits) {
      const std::uint64_t bound = std::uint64_t{1} << bits;
      const auto exact = std::ranges::count_if(values, [&](auto v) { return v <= bound; });
      ASSERT_EQ(taken.count_at_most(bound), static_cast<std::uint64_t>(exact)) << bound;
    }
  }
}

TEST(latency_histogram, every_duration_lies_between_its_buckets_bounds) {
  std::mt19937_64 random{7};
  for (int i = 0; i < 100'000; ++i) {
    const std::uint64_t value = random() >> (random() % 64);
    const std::size_t bucket = latency_histogram::bucket_of(value);
    ASSERT_LT(bucket, latency_histogram::bucket_count);
    ASSERT_LE(value, latency_histogram::upper_bound_ns(bucket));
    if (bucket > 0) {
      ASSERT_GT(value, latency_histogram::upper_bound_ns(bucket - 1));
    }
  }
}

TEST(latency_histogram, the_longest_duration_has_the_last_bucket) {
  EXPECT_EQ(latency_histogram::bucket_of(UINT64_MAX), latency_histogram::bucket_count - 1);
  EXPECT_EQ(latency_histogram::upper_bound_ns(latency_histogram::bucket_count - 1), UINT64_MAX);
}

TEST(latency_histogram, two_merged_snapshots_equal_one_of_all_samples) {
  std::mt19937_64 random{3};
  const durations first = random_samples(random), second = random_samples(random);
  durations all = first;
  all.insert(all.end(), second.begin(), second.end());
  latency_snapshot merged;
  merged.merge(recorded(first));
  merged.merge(recorded(second));
  merged.merge(latency_snapshot{});
  const latency_snapshot whole = recorded(all);
  EXPECT_EQ(merged.bucket_counts, whole.bucket_counts);
  EXPECT_EQ(merged.count, whole.count);
  EXPECT_EQ(merged.sum_ns, whole.sum_ns);
  EXPECT_EQ(merged.max_ns, whole.max_ns);
}

TEST(latency_histogram, an_empty_one_answers_zero) {
  EXPECT_EQ(latency_histogram{}.snapshot().quantile_ns(0.99), 0u);
  EXPECT_EQ(latency_snapshot{}.quantile_ns(0.5), 0u);
}

TEST(latency_histogram, a_negative_duration_counts_as_zero) {
  latency_histogram histogram;
  histogram.record(std::chrono::nanoseconds{-5});
  EXPECT_EQ(histogram.snapshot().count, 1u);
  EXPECT_EQ(histogram.snapshot().sum_ns, 0u);
}

TEST(latency_histogram, samples_of_several_threads_are_all_counted) {
  constexpr std::uint64_t per_thread = 20'000;
  latency_histogram histogram;
  std::vector<std::thread> threads;
  for (std::uint64_t t = 1; t <= 4; ++t)
    threads.emplace_back([&histogram, t] {
      for (std::uint64_t i = 0; i < per_thread; ++i)
        histogram.record_ns(t * 1000);
    });
  for (std::thread& thread : threads)
    thread.join();
  const latency_snapshot taken = histogram.snapshot();
  EXPECT_EQ(taken.count, 4 * per_thread);
  EXPECT_EQ(taken.sum_ns, per_thread * (1000 + 2000 + 3000 + 4000));
  EXPECT_EQ(taken.max_ns, 4000u);
}

} // namespace
} // namespace peercache::metrics
