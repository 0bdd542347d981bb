#include "actors/monitoring/event_log.hpp"

#include "common/fault_ids.hpp"
#include "link/cluster_health.hpp"
#include "metrics/metric_table.hpp"

#include <utility>

namespace peercache::actors {

namespace {

std::string place_of(const discovery::member& who) {
  return who.name + " (" + who.host + ":" + std::to_string(who.control_port) + ")";
}

/// The texts of a node's faults, by fault id. A node that is not ready has a fault for that.
std::map<std::string, std::string> incidents_of(const node_report& report) {
  std::map<std::string, std::string> all;
  if (report.samples.value(metrics::metric::ready) == 0)
    all.emplace(fault_ids::node_unready, "not ready: " + report.unready_reason);
  for (const auto& fault : link::own_faults_of(report))
    all.emplace(fault.id, fault.what);
  return all;
}

} // namespace

void event_log::add(node_event event) {
  event.number = ++numbers_;
  events_.push_back(std::move(event));
  if (events_.size() > events_max)
    events_.pop_front();
}

void event_log::compare_members(const discovery::view& next, std::uint64_t unix_ms) {
  for (const auto& member : next.members) {
    const auto* before = view_.find_name(member.name);
    if (before == nullptr)
      add({unix_ms, "joined", member.name, place_of(member) + " is in the cluster"});
    else if (before->inc != member.inc)
      add({unix_ms, "restarted", member.name, place_of(member) + " was started again"});
  }
  for (const auto& member : view_.members) {
    if (next.find_name(member.name) != nullptr)
      continue;
    const auto* gone = next.find_gone(member.name);
    if (gone != nullptr)
      add({unix_ms, "gone", member.name,
           place_of(member) + " is gone (" + std::string(to_string(gone->why)) + ")"});
    else
      add({unix_ms, "left", member.name, place_of(member) + " was stopped"});
  }
}

void event_log::take(const discovery::view& next, std::uint64_t unix_ms) {
  if (next.stamp() == view_.stamp())
    return;
  // From the first view only this node's own join is an event: when the other members joined is not
  // known here.
  if (!view_.members.empty())
    compare_members(next, unix_ms);
  else if (const auto* own = next.find_name(self_))
    add({unix_ms, "joined", self_,
         place_of(*own) + " is in the cluster, with " + std::to_string(next.members.size() - 1) +
             " others"});
  view_ = next;
}

void event_log::take(const node_report& report, std::uint64_t unix_ms) {
  auto now = incidents_of(report);
  // On a busy host single reports lack parts, again and again.
  if (!std::exchange(lacked_parts_, !report.silent.empty()))
    now.erase(fault_ids::status_incomplete);
  for (const auto& [id, words] : now)
    if (!incidents_.contains(id))
      add({unix_ms, id, self_, words});
  // Whether an incident is over is not known while the report lacks parts.
  if (!report.silent.empty())
    now.insert(incidents_.begin(), incidents_.end());
  for (const auto& [id, words] : incidents_)
    if (!now.contains(id))
      add({unix_ms, id, self_, words, true});
  incidents_ = std::move(now);
}

} // namespace peercache::actors
