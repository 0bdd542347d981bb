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
  kill,       ///< kill -9 of a node, which starts again at once or seconds later.
  freeze,     ///< SIGSTOP of a node, and SIGCONT later.
  partition,  ///< Two groups of hosts hear nothing of each other.
  one_way,    ///< One host hears nothing of another, which hears it.
  loss,       ///< A share of the packets that come to a host is lost.
  wipe,       ///< kill -9 of a node, which starts again with an empty disk.
  clock_jump, ///< The wall clock of a node is an hour off.
  black_hole, ///< All packets to a host are lost: it neither takes nor refuses connections.
  drain_join  ///< A further node joins; when the fault ends, another leaves in good order.
};
inline constexpr std::size_t fault_kinds = 9;
std::string_view to_string(fault_kind kind);

/// The plan of one chaos run.
struct chaos_plan {
  /// The workload; it has the seed of the run and the number of nodes that run.
  stress::stress_plan load;
  std::chrono::milliseconds duration{600'000};
  /// Length of the first part of a round, in which faults happen. Then all faults end, and the
  /// cluster must heal.
  std::chrono::milliseconds round{45'000};
  /// Time in which a cluster must have healed after its faults.
  std::chrono::milliseconds heal_limit{10'000};
  std::uint64_t disk_bytes = 64u << 20; ///< Size of a node's disk tier; 0: none.
  std::string disk_store = "bucket";
  bool keep_pools = false; ///< Whether pools outlive the processes of their nodes.
  bool tls = false;        ///< Nodes and clients have certificates of a CA of the run.
  /// Whether half of the nodes are killed at once, over and over; there are no other faults then.
  bool kill_half = false;
  /// Whether nodes compare their pages with the directory's records and mend what differs.
  bool repairs = true;
  std::vector<fault_kind> kinds; ///< Kinds of faults that the run draws from.
  /// Nice value of the nodes. The clients' process, whose calls are timed, has a higher priority.
  int nodes_priority = 0;
  std::string clock_library; ///< Path of libfaketime, which is preloaded into the nodes.
  std::string history;       ///< The file in which events are recorded; empty: none.

  /// Number of hosts: one more than the nodes that run, so that a further node can join.
  std::uint32_t hosts() const { return load.nodes + 1; }
};

/// Parses the command line: --minutes M --seed N [--nodes N] [--history FILE] [--keep-pools]
/// [--tls] [--kill-half | --without GUARD | --control GUARD] --node-program PATH. GUARD is view,
/// purge or withdraw: the kind of fault that it prevents is made frequent, and the first find ends
/// the run.
result<chaos_plan> parse_plan(int argc, char** argv);

} // namespace peercache::chaos
