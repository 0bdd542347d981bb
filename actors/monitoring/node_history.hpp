#pragma once

#include "actors/link_names.hpp"
#include "link/protocol/history.hpp"
#include "link/protocol/reports.hpp"
#include "metrics/samples.hpp"

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

namespace peercache::actors {

/// The last hour of one node, in steps: what its counters counted within each. A step ends when the
/// time of day enters the next multiple of `history_step_ms`, so the steps of all nodes whose
/// clocks agree lie beside each other.
///
/// Threads: none; time is an argument. Memory: `history_points_max` points, 113 KiB.
class node_history {
public:
  using time_point = std::chrono::steady_clock::time_point;

  /// Whether the caller has to pass the counters to `take`: a step has ended, or none has begun
  /// yet.
  bool due(std::uint64_t unix_ms) const noexcept {
    return !begin_ || unix_ms / history_step_ms != step_;
  }
  /// Takes the node's counters of now. @pre due(unix_ms)
  void take(const metrics::samples& now, time_point at, std::uint64_t unix_ms);
  const std::deque<history_point>& points() const noexcept { return points_; }

private:
  std::deque<history_point> points_;
  /// The counters when the current step began; none: no step has begun.
  std::optional<metrics::samples> begin_;
  time_point began_{};
  std::uint64_t step_ = 0;
  std::uint64_t numbers_ = 0;
};

/// The points and events that one node remembers of the last hour, in the order of their numbers.
struct node_memory {
  std::deque<history_point> points;
  std::deque<node_event> events;
};

/// Returns the points and events of `memory` that have higher numbers than these.
history_report remembered_after(const node_memory& memory, std::uint64_t after_point,
                                std::uint64_t after_event);

} // namespace peercache::actors
