#pragma once

#include "common/result.hpp"
#include "tests/real/stress/stress_plan.hpp"

#include <chrono>
#include <cstdint>
#include <string>

namespace peercache::chaos {

/// What one run does.
struct chaos_plan {
  stress::stress_plan load; ///< The workload; its seed is the run's, its nodes those that run.
  std::chrono::milliseconds duration{600'000};
  /// Faults for so long, then all of them end and the cluster has to heal, over and over.
  std::chrono::milliseconds round{45'000};
  std::chrono::milliseconds heal_limit{10'000}; ///< Longer than that is no heal.
  std::uint64_t disk_bytes = 64u << 20;
  std::string disk_store = "bucket";
  std::string clock_library; ///< libfaketime, preloaded into the nodes.

  /// Hosts: one more than nodes that run, for the next that joins.
  std::uint32_t hosts() const { return load.nodes + 1; }
};

/// The command line: --minutes M --seed N [--nodes N] [--without GUARD] --node-program PATH.
/// Guards: view, purge, withdraw; each makes its kind of fault frequent and ends the run at the
/// first thing that is found.
result<chaos_plan> parse_plan(int argc, char** argv);

} // namespace peercache::chaos
