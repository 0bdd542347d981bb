#include "bench/sample_statistics.hpp"

#include "common/assert.hpp"

#include <algorithm>
#include <cmath>

namespace peercache::bench {

namespace {

template <class Figure>
double median_over(std::span<const round_sample> rounds, Figure figure) {
  std::vector<double> values;
  values.reserve(rounds.size());
  for (const auto& round : rounds)
    values.push_back(figure(round));
  return median(values);
}

double p50(const round_sample& round) {
  return percentile(round.call_us, 0.50);
}
double p99(const round_sample& round) {
  return percentile(round.call_us, 0.99);
}
double per_second(const round_sample& round) {
  return round.per_second();
}

template <class Figure>
double median_ratio(std::span<const round_sample> operations, std::span<const round_sample> limits,
                    Figure figure) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < operations.size(); ++i)
    if (auto limit = figure(limits[i]); limit > 0)
      ratios.push_back(figure(operations[i]) / limit);
  return median(ratios);
}

} // namespace

double median(std::span<const double> values) {
  if (values.empty())
    return 0;
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  auto middle = sorted.size() / 2;
  return sorted.size() % 2 != 0 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

double percentile(std::span<const double> values, double share) {
  PEERCACHE_ASSERT(share > 0 && share <= 1);
  if (values.empty())
    return 0;
  std::vector<double> sorted(values.begin(), values.end());
  auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(sorted.size()))) - 1;
  std::nth_element(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(rank),
                   sorted.end());
  return sorted[rank];
}

void interleaved_rounds::add(round_sample operation, round_sample limit) {
  operations_.push_back(std::move(operation));
  limits_.push_back(std::move(limit));
}

double interleaved_rounds::operation_per_second() const {
  return median_over(operations_, per_second);
}
double interleaved_rounds::limit_per_second() const {
  return median_over(limits_, per_second);
}
double interleaved_rounds::throughput_ratio() const {
  return median_ratio(operations_, limits_, per_second);
}
double interleaved_rounds::latency_ratio() const {
  return median_ratio(operations_, limits_, p50);
}
double interleaved_rounds::operation_p50_us() const {
  return median_over(operations_, p50);
}
double interleaved_rounds::operation_p99_us() const {
  return median_over(operations_, p99);
}
double interleaved_rounds::limit_p50_us() const {
  return median_over(limits_, p50);
}

} // namespace peercache::bench
