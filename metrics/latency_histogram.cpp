#include "metrics/latency_histogram.hpp"

#include "common/assert.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace peercache::metrics {

namespace {

constexpr auto relaxed = std::memory_order_relaxed;
constexpr std::uint64_t steps = 1u << latency_histogram::steps_log2;

} // namespace

std::size_t latency_histogram::bucket_of(std::uint64_t duration_ns) noexcept {
  // One nanosecond is taken off, so that a bucket's upper bound is inclusive as Prometheus' `le`
  // is.
  const std::uint64_t below = duration_ns == 0 ? 0 : duration_ns - 1;
  if (below < steps)
    return static_cast<std::size_t>(below);
  const unsigned shift = static_cast<unsigned>(std::bit_width(below)) - steps_log2 - 1;
  return static_cast<std::size_t>((shift + 1) * steps + ((below >> shift) - steps));
}

std::uint64_t latency_histogram::upper_bound_ns(std::size_t bucket) noexcept {
  PEERCACHE_ASSERT(bucket < bucket_count);
  if (bucket < steps)
    return bucket + 1;
  const std::uint64_t shift = bucket / steps - 1;
  const std::uint64_t last_below = ((steps + bucket % steps + 1) << shift) - 1;
  return last_below == UINT64_MAX ? last_below : last_below + 1;
}

void latency_histogram::record_ns(std::uint64_t duration_ns) noexcept {
  counts_[bucket_of(duration_ns)].fetch_add(1, relaxed);
  sum_ns_.fetch_add(duration_ns, relaxed);
  std::uint64_t seen = max_ns_.load(relaxed);
  while (seen < duration_ns && !max_ns_.compare_exchange_weak(seen, duration_ns, relaxed)) {
  }
}

void latency_histogram::record(std::chrono::nanoseconds duration) noexcept {
  record_ns(static_cast<std::uint64_t>(std::max<std::int64_t>(duration.count(), 0)));
}

latency_snapshot latency_histogram::snapshot() const {
  latency_snapshot taken;
  taken.bucket_counts.reserve(bucket_count);
  for (const auto& counter : counts_) {
    taken.bucket_counts.push_back(counter.load(relaxed));
    taken.count += taken.bucket_counts.back();
  }
  taken.sum_ns = sum_ns_.load(relaxed);
  taken.max_ns = max_ns_.load(relaxed);
  return taken;
}

void latency_snapshot::merge(const latency_snapshot& other) {
  if (other.bucket_counts.empty())
    return;
  PEERCACHE_ASSERT(other.bucket_counts.size() == latency_histogram::bucket_count);
  bucket_counts.resize(latency_histogram::bucket_count);
  for (std::size_t i = 0; i < bucket_counts.size(); ++i)
    bucket_counts[i] += other.bucket_counts[i];
  count += other.count;
  sum_ns += other.sum_ns;
  max_ns = std::max(max_ns, other.max_ns);
}

std::uint64_t latency_snapshot::quantile_ns(double fraction) const {
  PEERCACHE_ASSERT(fraction >= 0.0 && fraction <= 1.0);
  if (count == 0)
    return 0;
  const double wanted = std::ceil(fraction * static_cast<double>(count));
  const auto rank = std::clamp<std::uint64_t>(static_cast<std::uint64_t>(wanted), 1, count);
  std::uint64_t passed = 0;
  for (std::size_t i = 0; i < bucket_counts.size(); ++i) {
    passed += bucket_counts[i];
    if (passed >= rank)
      return std::min(latency_histogram::upper_bound_ns(i), max_ns);
  }
  return max_ns;
}

std::uint64_t latency_snapshot::count_at_most(std::uint64_t bound_ns) const {
  std::uint64_t passed = 0;
  for (std::size_t i = 0; i < bucket_counts.size(); ++i) {
    if (latency_histogram::upper_bound_ns(i) > bound_ns)
      break;
    passed += bucket_counts[i];
  }
  return passed;
}

} // namespace peercache::metrics
