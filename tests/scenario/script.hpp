#pragma once

#include "discovery/liveness.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace peercache::scenario {

using discovery::duration;
using discovery::time_point;

/// One line `at TIME VERB ARGUMENTS` of a scenario.
struct step {
  duration when{};
  std::string verb;
  std::vector<std::string> arguments;
};

/// A scenario: its cluster, how long faults may happen to the cluster, and which faults do. As
/// text:
///
///   # comment
///   nodes 5             node1 … node5 start at once
///   seeds node1 node2   the seeds of all nodes; the first one is the pinned head
///   lost node1 node3    nodes that are killed at once after the healing (cluster_loss.cpp)
///   apart node2         nodes that do not hear the others from that moment on
///   at 2s kill node1    a step; `script.cpp` has the table of verbs
struct script {
  std::uint64_t seed = 1; ///< Decides everything that the scenario does not say.
  std::uint32_t nodes = 5;
  std::vector<std::string> seeds{"node1"};
  std::uint32_t masters = 3;
  std::uint32_t replicas = 2;
  std::uint32_t granules = 24; ///< Granules of each pool.
  std::uint32_t keys = 48;     ///< Number of keys that clients use.
  /// Records of keys with new owners that a node publishes per second.
  std::uint32_t republish = UINT32_MAX;
  /// Most withdrawals, and most records of pages on disk, that may wait to be published at a node.
  std::uint32_t waiting_max = 1u << 18;
  bool disk = false;
  std::uint32_t disk_pages = 1u << 18; ///< Number of pages that each host's disk holds.
  bool overtaking = true; ///< Whether messages may arrive in another order than they were sent.
  bool repair = true;     ///< Whether producers compare their pages with the directory.
  duration run = std::chrono::seconds(20);  ///< Duration of the faults; then the cluster heals.
  std::uint64_t events_max = 10'000;        ///< The faults also end after this many events.
  std::uint32_t operations_per_second = 20; ///< Calls per second of the clients of each node.
  std::vector<step> steps;                  ///< Steps in order of time.
  std::vector<std::string> lost;  ///< Nodes that are killed, all at once, after the healing.
  std::vector<std::string> apart; ///< Nodes cut off from the other nodes when `lost` are killed.
};

/// Parses a scenario. Returns nothing on a mistake; `fault` says which line is wrong.
std::optional<script> parse_script(std::string_view text, std::string& fault);
std::string to_text(const script& what);

/// Parses a duration such as "250ms" or "1.5s"; nothing when the text is none.
std::optional<duration> parse_duration(std::string_view text);
std::string to_text(duration value);

/// Returns the cluster and the faults of a seed.
script random_script(std::uint64_t seed);

} // namespace peercache::scenario
