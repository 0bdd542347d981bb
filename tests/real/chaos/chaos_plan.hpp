#pragma once

#include "common/result.hpp"
#include "tests/real/stress/stress_plan.hpp"

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace peercache::chaos {

enum class fault_kind : std::uint8_t {
  kill,       ///< kill -9, and the same name again, at once or seconds later.
  freeze,     ///< SIGSTOP, SIGCONT.
  partition,  ///< Some hosts and the others hear nothing of each other.
  one_way,    ///< One host hears nothing of another, which hears it.
  loss,       ///< A share of what comes to a host is lost.
  wipe,       ///< kill -9, and the same name again with an empty disk.
  clock_jump, ///< The wall clock is an hour off.
  black_hole, ///< A host takes connections of nobody, and refuses none.
  drain_join  ///< A further node joins; then another leaves in good order.
};
inline constexpr std::size_t fault_kinds = 9;
std::string_view to_string(fault_kind kind);

/// The plan of one run.
struct chaos_plan {
  stress::stress_plan load; ///< The workload; its seed is the run's, its nodes those that run.
  std::chrono::milliseconds duration{600'000};
  /// Faults for so long, then all of them end and the cluster has to heal, over and over.
  std::chrono::milliseconds round{45'000};
  std::chrono::milliseconds heal_limit{10'000}; ///< Longer than that is no heal.
  std::uint64_t disk_bytes = 64u << 20;         ///< 0: no disk tier.
  std::string disk_store = "bucket";
  bool keep_pools = false;       ///< Pages outlive their nodes.
  bool kill_half = false;        ///< Half of the nodes at once, over and over, and no other faults.
  bool repairs = true;           ///< Nodes compare what they hold with the directory.
  std::vector<fault_kind> kinds; ///< Faults that may come.
  /// Nice value of the nodes; the clients, whose returns are timed, get more.
  int nodes_priority = 0;
  std::string clock_library; ///< libfaketime, preloaded into the nodes.
  std::string history;       ///< The file in which events are recorded; empty: none.

  /// Hosts: one more than nodes that run, for the next that joins.
  std::uint32_t hosts() const { return load.nodes + 1; }
};

/// The command line: --minutes M --seed N [--nodes N] [--history FILE] [--keep-pools]
/// [--kill-half | --without GUARD | --control GUARD] --node-program PATH.
/// Guards: view, purge, withdraw; each makes its kind of fault frequent and ends the run at the
/// first thing that is found.
result<chaos_plan> parse_plan(int argc, char** argv);

} // namespace peercache::chaos
