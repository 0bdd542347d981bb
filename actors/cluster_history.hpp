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
  /// By the name of each node that has answered once.
  std::map<std::string, std::deque<history_point>> points;
  /// Nodes of `points` that did not answer when they were asked last.
  std::set<std::string> silent;
  std::vector<node_event> events; ///< The newest first.
  std::size_t members = 0; ///< How many nodes the cluster has, those that are not asked as well.
  bool complete = false;   ///< Each node that is asked has answered, or was asked in vain, once.
};

/// What one node knows of the memories of others, and whom to ask for more.
///
/// Threads: none; time is an argument. Limits: of `nodes_max` nodes, this one among them, and
/// `events_max` events; `asked_per_turn` questions a turn, and one at a time to a node.
class cluster_history {
public:
  using time_point = std::chrono::steady_clock::time_point;

  static constexpr std::size_t nodes_max = 64;
  static constexpr std::size_t asked_per_turn = 8;
  /// A node is asked again this long after its last question.
  static constexpr std::chrono::milliseconds ask_every{5000};

  /// What a node is asked for: all that is newer than these numbers.
  struct question {
    incarnation whom;
    std::uint64_t after_point = 0;
    std::uint64_t after_event = 0;
  };

  /// Takes the nodes to ask, in the order in which people read their names. Who is not among them,
  /// or beyond the limit, is forgotten.
  void take(const std::vector<discovery::member>& nodes, const incarnation& self);
  /// Forgets all: nobody has looked for a while.
  void forget() { nodes_.clear(); }
  /// Names whom to ask now, and notes that they are being asked.
  std::vector<question> due(time_point now);
  void answered(const incarnation& who, const history_report& said);
  /// Notes that a node gave no answer.
  void failed(const incarnation& who);

  /// What is known. Of joins and leaves only those that `self` saw: the others saw the same.
  cluster_memory memory(const incarnation& self) const;

private:
  struct known_node {
    std::string name;
    std::deque<history_point> points;
    std::deque<node_event> events;
    bool asking = false, asked_once = false;
    bool heard = false;  ///< Whether the node has answered once.
    bool silent = false; ///< Whether the node did not answer the last question.
    time_point asked{};
  };
  std::map<incarnation, known_node> nodes_;
  std::size_t members_ = 0; ///< How many nodes were taken, those beyond the limit as well.
};

/// The sum of all nodes' points, step by step; of latencies the longest one counts. Without steps
/// of which a node that answers has yet to tell, and without those of clocks that run ahead.
/// @param unix_ms this node's time of day, in ms since 1970
std::deque<history_point> sum_of(const cluster_memory& memory, std::uint64_t unix_ms);

} // namespace peercache::actors
