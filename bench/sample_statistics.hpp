#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <vector>

namespace peercache::bench {

/// The value in the middle of the sorted values, or the mean of the two middle values if their
/// number is even; 0 for no values.
double median(std::span<const double> values);

/// The smallest value that at least a `share` (0..1] of all values do not exceed; 0 for no values.
double percentile(std::span<const double> values, double share);

using clock = std::chrono::steady_clock;

inline double seconds_between(clock::time_point from, clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

/// A round of an operation, or of its limit: how much the round moved, and how long it took.
struct round_sample {
  double units = 0; ///< Bytes or keys moved.
  double seconds = 0;
  std::vector<double> call_us; ///< Microseconds that each call took.

  double per_second() const { return seconds > 0 ? units / seconds : 0; }
};

/// The rounds of an operation and of this machine's own limit for the same work, measured in turns,
/// so that a change of the machine's speed meets operation and limit alike. Each figure is the
/// median over the rounds, and the ratio is the median of the rounds' ratios. Threads: one.
/// Allocates when samples are added.
class interleaved_rounds {
public:
  void add(round_sample operation, round_sample limit);

  std::size_t rounds() const { return operations_.size(); }
  double operation_per_second() const;
  double limit_per_second() const;
  double throughput_ratio() const; ///< The operation's rate over the limit's: more is better.
  double latency_ratio() const;    ///< The operation's p50 over the limit's p50: less is better.
  double operation_p50_us() const;
  double operation_p99_us() const;
  double limit_p50_us() const;

private:
  std::vector<round_sample> operations_;
  std::vector<round_sample> limits_;
};

} // namespace peercache::bench
