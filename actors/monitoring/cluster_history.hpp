#pragma once

#include "actors/link_names.hpp"
#include "common/ids.hpp"
#include "discovery/view.hpp"
#include "link/protocol/history.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace peercache::actors {

/// What several nodes remember of the last hour, each by its own account.
struct cluster_memory {
  /// The points of each node that has answered at least once, by its name.
  std::map<std::string, std::deque<history_point>> points;
  /// Nodes of `points` that did not answer when they were asked last.
  std::set<std::string> silent;
  std::vector<node_event> events; ///< Events of all these nodes, the newest first.
  std::size_t members = 0; ///< Number of nodes of the cluster, including those that are not asked.
  /// Each node that is to be asked has answered, or was asked in vain, at least once.
  bool complete = false;
};

/// Collects on one node what the nodes of the cluster remember of the last hour: keeps their
/// answers and decides which nodes to ask next.
///
/// Threads: none; time is an argument. Limits: `nodes_max` nodes, including this one;
/// `history_points_max` points and `events_max` events of each; `asked_per_turn` questions in each
/// call of `due`, and one open question per node.
class cluster_history {
public:
  using time_point = std::chrono::steady_clock::time_point;

  static constexpr std::size_t nodes_max = 64;
  static constexpr std::size_t asked_per_turn = 8;
  /// Shortest time between two questions to the same node.
  static constexpr std::chrono::milliseconds ask_every{5000};

  /// A question to one node: it asks for all points and events with higher numbers than these.
  struct question {
    incarnation whom;
    std::uint64_t after_point = 0;
    std::uint64_t after_event = 0;
  };

  /// Sets the nodes to ask: `self`, and the first ones of `nodes` up to the limit. Forgets all
  /// other nodes. `nodes` is in the natural order of the nodes' names.
  void take(const std::vector<discovery::member>& nodes, const incarnation& self);
  /// Forgets all nodes and what they told. Call when nobody has looked at the page at `/` or asked
  /// `/api/` for a while.
  void forget() { nodes_.clear(); }
  /// Returns the questions to send now, and notes that they are open.
  std::vector<question> due(time_point now);
  void answered(const incarnation& who, const history_report& said);
  /// Notes that a node gave no answer.
  void failed(const incarnation& who);

  /// Returns what is known. Joins and leaves are only those that `self` saw, because the other
  /// nodes saw the same ones.
  cluster_memory memory(const incarnation& self) const;

private:
  struct known_node {
    std::string name;
    std::deque<history_point> points;
    std::deque<node_event> events;
    bool asking = false, asked_once = false;
    bool heard = false;  ///< Whether the node has ever answered.
    bool silent = false; ///< Whether the node did not answer the last question.
    time_point asked{};
  };
  std::map<incarnation, known_node> nodes_;
  /// Number of nodes that `take` was given, including those beyond the limit.
  std::size_t members_ = 0;
};

/// Returns the sum of all nodes' points, step by step; for latencies it has the longest one. Left
/// out are the newest steps that some answering node has not told yet, and steps in the future,
/// which come from clocks that run ahead.
/// @param unix_ms this node's time of day, in ms since 1970
std::deque<history_point> sum_of(const cluster_memory& memory, std::uint64_t unix_ms);

} // namespace peercache::actors
