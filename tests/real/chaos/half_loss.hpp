#pragma once

#include "chaos_cluster.hpp"
#include "cluster_watch.hpp"
#include "heal_check.hpp"

#include <chrono>
#include <cstdint>
#include <random>
#include <vector>

namespace peercache::chaos {

/// Kills half of the nodes at once, as a seed says which, and looks whether the others have one
/// view in time and all of their pages can be read; then whether all are back once they are
/// started.
///
/// Threads: the cluster's. Errors: of our own tools only.
class half_loss {
public:
  static constexpr std::chrono::seconds rest_limit{15};

  /// @pre all of these outlive it
  half_loss(const chaos_plan& plan, chaos_cluster& cluster, cluster_watch& watch, heal_check& check)
      : cluster_(cluster), watch_(watch), check_(check), random_(plan.load.seed) {}

  /// Every second time most of the masters are among those who go.
  void kill();
  /// Judges the nodes that were left.
  heal_report judge_rest();
  /// Starts the others again. Of all.
  result<heal_report> bring_back();

  /// How many were killed, and how many of the masters were among them.
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
