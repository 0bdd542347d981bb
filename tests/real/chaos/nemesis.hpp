#pragma once

#include "chaos_cluster.hpp"
#include "cluster_watch.hpp"

#include <chrono>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace peercache::chaos {

using clock = std::chrono::steady_clock;

/// Begins and ends faults, drawn by the plan's seed: at most two at a time, each on hosts of its
/// own. Threads: the thread that uses the cluster. Methods get the time as an argument. Errors:
/// only of the test's own tools.
class nemesis {
public:
  /// @pre all arguments outlive this object
  nemesis(const chaos_plan& plan, chaos_cluster& cluster, cluster_watch& watch);

  /// Ends the faults whose time has passed, and begins a fault if one is due.
  result<void> step(clock::time_point now);
  /// Ends all faults: afterwards as many nodes run as at the beginning, and all hear each other.
  result<void> end_all();

  const std::map<std::string, std::uint64_t>& counts() const { return counts_; }

private:
  struct running_fault {
    fault_kind kind;
    std::vector<std::uint32_t> hosts;
    clock::time_point until;
    bool draining = false; ///< The fault is a `drain_join` whose second node is leaving.
  };
  std::uint64_t draw(std::uint64_t below) { return random_() % below; }
  std::chrono::milliseconds draw_ms(std::uint64_t least, std::uint64_t most);
  std::vector<std::uint32_t> idle_hosts() const;
  result<void> begin(clock::time_point now);
  result<void> begin(running_fault& fault, const std::vector<std::uint32_t>& idle);
  result<void> begin_partition(running_fault& fault, std::vector<std::uint32_t> idle);
  result<void> begin_join(running_fault& fault);
  /// Ends a fault; false while the fault goes on.
  result<bool> end(running_fault& fault, clock::time_point now);
  result<void> end_drain_join(running_fault& fault, clock::time_point now, bool& over);
  result<void> start(std::uint32_t host);
  void kill(std::uint32_t host);

  const chaos_plan& plan_;
  chaos_cluster& cluster_;
  cluster_watch& watch_;
  std::mt19937_64 random_;
  std::vector<running_fault> faults_;
  clock::time_point next_at_{};
  std::map<std::string, std::uint64_t> counts_;
};

} // namespace peercache::chaos
