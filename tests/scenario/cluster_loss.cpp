// Ends several nodes at once and judges whether the other nodes go on.

#include "discovery/quorum.hpp"
#include "tests/scenario/cluster.hpp"

#include <algorithm>

namespace peercache::scenario {

using namespace std::chrono_literals;

namespace {

/// Longest time until the remaining nodes have one view, if they have a majority of the masters.
/// Masters expel a node only after it has been silent for the expiry.
constexpr auto limit_with_majority = expiry + 3 * heartbeat;
constexpr auto limit_without = 15s;

} // namespace

/// Ends all nodes that the script names as lost, at once. The other nodes are on one side, or on
/// two sides that do not hear each other. Each side has one view in time and keeps it; then all
/// nodes come back. @pre all running nodes have one view
void cluster::lose_some() {
  if (script_.lost.empty() || newest_view() == nullptr)
    return;
  const auto before = *newest_view();
  const auto proposed = oracle_.proposed_after(before.stamp());
  split(script_.apart);
  for (const auto& name : script_.lost)
    if (auto* at = find(name))
      kill(*at, false);
  const auto since = world_.now();
  auto sides = sides_left(before);
  wait_for_rest(sides, since);
  for (auto& one : sides) {
    follow_proposal(one, before.stamp(), proposed);
    judge_rest(one, one.found_after.value_or(world_.now() - since));
  }
  run_until(world_.now() + 5s);
  for (const auto& one : sides)
    if (!converged(one.hosts))
      oracle_.fault("those who were left did not stay together");
  if (sides.size() == 1) {
    repair(8s);
    check_directory();
  }
  end_faults();
  expect_one_view();
  repair(8s);
  check_directory();
}

/// Returns the running nodes, on the sides that `script::apart` makes.
std::vector<cluster::side> cluster::sides_left(const discovery::view& before) const {
  std::vector<side> sides;
  for (bool apart : {false, true}) {
    side one;
    std::size_t masters = 0;
    for (const auto& at : hosts_) {
      const bool is_apart = std::count(script_.apart.begin(), script_.apart.end(), at.name) > 0;
      if (!at.running || is_apart != apart)
        continue;
      one.hosts.push_back(at.index);
      masters += before.is_master(at.name) ? 1 : 0;
    }
    one.has_majority = masters >= discovery::votes_needed(before.masters.size());
    if (!one.hosts.empty())
      sides.push_back(std::move(one));
  }
  return sides;
}

/// Runs until each side has had one view, for 30 s at most, and notes when each side had it.
void cluster::wait_for_rest(std::vector<side>& sides, time_point since) {
  const auto is_late = [this](const side& one) {
    return !one.found_after && !converged(one.hosts);
  };
  while (world_.now() < since + 30s && std::any_of(sides.begin(), sides.end(), is_late)) {
    for (auto& one : sides)
      if (!one.found_after && converged(one.hosts))
        one.found_after = world_.now() - since;
    run_until(world_.now() + 10ms);
  }
}

/// Before the loss, a master may have accepted a proposed view whose attempt then failed by a veto.
/// The next attempt that hears of this view must finish it (discovery/quorum.hpp), even though the
/// view contains lost nodes and may lack living ones. So a side can go on only with a majority of
/// the masters of that view.
void cluster::follow_proposal(side& one, const discovery::view_stamp& before,
                              const std::set<discovery::view_stamp>& proposed) const {
  const auto masters = oracle_.masters_decided(before, proposed);
  if (!masters)
    return;
  const auto here = std::count_if(one.hosts.begin(), one.hosts.end(), [&](std::size_t index) {
    return std::count(masters->begin(), masters->end(), hosts_[index].self.inc) > 0;
  });
  one.has_majority = one.has_majority &&
                     static_cast<std::size_t>(here) >= discovery::votes_needed(masters->size());
}

void cluster::judge_rest(const side& one, duration took) {
  const auto limit = one.has_majority ? limit_with_majority : duration(limit_without);
  if (took > limit)
    oracle_.fault("one view of those who are left only after " + to_text(took));
  outcome_.fragments += one.has_majority ? 0 : 1;
  if (!one.has_majority)
    outcome_.rest_found = std::max(outcome_.rest_found, took);
  const auto& found = hosts_[one.hosts.front()].running->view();
  if (found.fragment() == one.has_majority)
    oracle_.fault(one.has_majority ? "a view that a majority made is a fragment"
                                   : "a view that no majority made is no fragment");
}

} // namespace peercache::scenario
