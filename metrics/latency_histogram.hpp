#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace peercache::metrics {

/// The counts of a latency histogram at one moment: a plain value that can be added to another,
/// asked for quantiles, and handed to the registry.
struct latency_snapshot {
  /// Samples in each bucket. Empty, or `latency_histogram::bucket_count` long.
  std::vector<std::uint64_t> bucket_counts;
  std::uint64_t count = 0;
  std::uint64_t sum_ns = 0;
  std::uint64_t max_ns = 0;

  /// Adds what `other` counted, as if both had been recorded into one histogram.
  void merge(const latency_snapshot& other);

  /// The quantile of `fraction`: the smallest bucket bound with at least that share of all samples
  /// at or below it. Never below the exact quantile, at most 1/32 above it; 0 when there is no
  /// sample.
  /// @param fraction in [0, 1]; 0.5 is the median.
  std::uint64_t quantile_ns(double fraction) const;

  /// How many samples lie at or below `bound_ns`; exact when the bound is a power of two.
  std::uint64_t count_at_most(std::uint64_t bound_ns) const;
};

/// Counts durations in log-linear buckets: each power of two is cut into 32 equal steps, so that
/// one histogram serves from nanoseconds to hours with a relative error of at most 1/32.
///
/// Threads: record() and snapshot() from any thread, without locks. A snapshot taken beside a
/// record() may hold the sample in one of its fields and not yet in the others.
/// Ownership: 15 KiB of counters inside the object; nothing is allocated by record().
/// Units: nanoseconds.
/// Invariant: bucket i holds the samples in (upper_bound_ns(i - 1), upper_bound_ns(i)].
class latency_histogram {
public:
  static constexpr unsigned steps_log2 = 5;
  static constexpr std::size_t bucket_count = (64 - steps_log2 + 1) << steps_log2;

  void record_ns(std::uint64_t duration_ns) noexcept;

  /// Counts one duration. A duration below zero, which a clock that was set back gives, counts as
  /// zero.
  void record(std::chrono::nanoseconds duration) noexcept;

  latency_snapshot snapshot() const;

  static std::size_t bucket_of(std::uint64_t duration_ns) noexcept;

  /// The highest duration that the bucket counts, in nanoseconds. @pre bucket < bucket_count
  static std::uint64_t upper_bound_ns(std::size_t bucket) noexcept;

private:
  // All threads add to these counters. Each counter is independent of the others, so relaxed
  // increments suffice.
  std::array<std::atomic<std::uint64_t>, bucket_count> counts_{};
  std::atomic<std::uint64_t> sum_ns_{0};
  std::atomic<std::uint64_t> max_ns_{0};
};

} // namespace peercache::metrics
