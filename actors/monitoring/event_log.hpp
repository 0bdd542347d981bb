#pragma once

#include "actors/link_names.hpp"
#include "discovery/view.hpp"
#include "link/protocol/history.hpp"
#include "link/protocol/reports.hpp"

#include <cstdint>
#include <deque>
#include <map>
#include <string>

namespace peercache::actors {

/// What happened, as one node saw it: who joined, left or was lost, and what went wrong with the
/// node itself.
///
/// Threads: none; time is an argument, in ms since 1970. Memory: the last `events_max` events.
class event_log {
public:
  event_log() = default;
  explicit event_log(std::string self) : self_(std::move(self)) {}

  /// Compares a view with the previous one and adds an event for each change of the members.
  void take(const discovery::view& next, std::uint64_t unix_ms);
  /// Compares the faults in a node's report with those in its previous one, and adds an event for
  /// each that began or ended. Faults of one id are one incident. None ends by a report that lacks
  /// parts, which is an incident itself from the second such report in a row on.
  void take(const node_report& report, std::uint64_t unix_ms);
  const std::deque<node_event>& events() const noexcept { return events_; }
  /// How many events there ever were, including those that are forgotten.
  std::uint64_t known() const noexcept { return numbers_; }

private:
  void add(node_event event);
  void compare_members(const discovery::view& next, std::uint64_t unix_ms);

  std::string self_;
  discovery::view view_;
  std::map<std::string, std::string> incidents_; ///< Text of each incident that lasts, by fault id.
  bool lacked_parts_ = false;                    ///< Whether the previous report did.
  std::deque<node_event> events_;
  std::uint64_t numbers_ = 0;
};

} // namespace peercache::actors
