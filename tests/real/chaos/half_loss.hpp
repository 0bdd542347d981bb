#pragma once

#include "chaos_cluster.hpp"
#include "cluster_watch.hpp"
#include "heal_check.hpp"

#include <chrono>
#include <cstdint>
#include <random>
#include <vector>

namespace peercache::chaos {

/// Kills half of the nodes at once, drawn by the plan's seed. Checks that the other nodes have one
/// view in time and that all their pages can be read; then starts the killed nodes again and checks
/// the same for all.
///
/// Threads: the thread that uses the cluster. Errors: only of the test's own tools (a program that
/// does not start).
class half_loss {
public:
  static constexpr std::chrono::seconds rest_limit{15};

  /// @pre all arguments outlive this object
  half_loss(const chaos_plan& plan, chaos_cluster& cluster, cluster_watch& watch, heal_check& check)
      : cluster_(cluster), watch_(watch), check_(check), random_(plan.load.seed) {}

  /// Kills half of the nodes; every second time most of the masters are among them.
  void kill();
  /// Waits until the nodes that were not killed have healed. Returns a report about these nodes.
  heal_report judge_rest();
  /// Starts the killed nodes again. Returns a report about all nodes.
  result<heal_report> bring_back();

  /// How many nodes were killed so far, and how many of them were masters.
  std::uint64_t killed() const { return killed_; }
  std::uint64_t masters_killed() const { return masters_killed_; }
  std::uint64_t rounds_without_majority() const { return rounds_without_majority_; }

private:
  chaos_cluster& cluster_;
  cluster_watch& watch_;
  heal_check& check_;
  std::mt19937_64 random_;
  std::vector<std::uint32_t> gone_;
  clock::time_point gone_since_{};
  std::uint64_t rounds_ = 0;
  std::uint64_t killed_ = 0;
  std::uint64_t masters_killed_ = 0;
  std::uint64_t rounds_without_majority_ = 0;
};

} // namespace peercache::chaos
