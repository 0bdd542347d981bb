#pragma once

#include "actors/link_names.hpp"
#include "common/error.hpp"
#include "common/result.hpp"
#include "discovery/view.hpp"
#include "link/cluster_health.hpp"
#include "link/node_status.hpp"
#include "link/protocol/topology.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace peercache::actors {

/// What one node knows of all nodes of its cluster: the newest answer of each node, and which nodes
/// to ask next. The page at `/` and `/api/cluster` show it.
///
/// Threads: none; time is an argument. Units: times of day in ms since 1970.
/// Limits: one answer for each member of the view; `asked_per_turn` questions in each call of
/// `due`, and one open question per node.
class cluster_overview {
public:
  using time_point = std::chrono::steady_clock::time_point;

  /// Shortest time between two questions to the same node.
  static constexpr std::chrono::milliseconds ask_every{1000};
  static constexpr std::size_t asked_per_turn = 64;

  /// The newest answer of a node, and how the last question ended.
  struct known_node {
    std::optional<node_status> last; ///< The newest status, however old it is.
    std::optional<error> fault;      ///< Why the last question got no status.
    bool asking = false;
    time_point asked{}, answered{};
    /// Times of day when the question that ended last was asked, and when it ended: with a status,
    /// with an error, or because the node has no connection.
    std::uint64_t asked_ms = 0, answered_ms = 0;
    std::uint64_t asking_ms = 0; ///< Time of day when the newest question was asked.
    /// Stamps of this node's view when it asked the last question that was answered, and the newest
    /// question.
    discovery::view_stamp said_in, asking_in;
    bool untried = false; ///< Whether no attempt to connect to the node has ended yet.
    /// Whether a question to the node has ever ended, with a status or not.
    bool heard() const noexcept { return last.has_value() || fault.has_value(); }
  };

  cluster_overview() = default;
  cluster_overview(std::string cluster, discovery::member self);

  /// Takes a newer view. Answers of nodes that are not in it are forgotten, except this node's own.
  void take(topology_ptr next);
  /// Forgets all answers. Call when nobody has looked at the page at `/`, asked `/api/` or
  /// collected metrics for a while.
  void forget();

  /// Returns the nodes to ask now, and notes that they are being asked: first nodes that were never
  /// asked, then those whose last question is the oldest. A member without a connection counts as
  /// asked in vain; a member that has just joined is asked as soon as its connection stands.
  /// @param every Shortest time between two questions to the same node.
  std::vector<incarnation> due(time_point now, std::uint64_t unix_ms,
                               std::chrono::milliseconds every = ask_every);
  void answered(const incarnation& who, time_point now, std::uint64_t unix_ms,
                result<node_status> answer);

  /// Whether each shown node has answered, or was asked in vain, at least once. Before that
  /// `faults` must not be called.
  bool complete() const;
  /// The nodes that are shown: the members of the view, and this node.
  std::vector<discovery::member> shown() const;
  const known_node* find(const incarnation& who) const;
  /// The answers of the view's members, in the natural order of their names.
  std::vector<node_answer> answers() const;
  /// What keeps the cluster from being well. @pre complete()
  std::vector<cluster_fault> faults() const;
  /// Whether this node's metrics show the faults of the cluster: the node leads, or its view does
  /// not contain it, so that no leader speaks for it.
  bool tells_faults() const;

  const std::string& cluster() const noexcept { return cluster_; }
  const discovery::member& self() const noexcept { return self_; }
  const discovery::view& view() const noexcept;
  const topology_ptr& latest() const noexcept { return topology_; }

private:
  /// Whether this node has a connection to the node `who`; true for this node itself.
  bool is_linked(const incarnation& who) const;
  /// Notes that a node without a connection cannot be asked.
  void note_unlinked(known_node& known, const incarnation& who, time_point now,
                     std::uint64_t unix_ms) const;

  std::string cluster_;
  discovery::member self_;
  topology_ptr topology_; ///< The newest topology; null before the first view.
  std::map<incarnation, known_node> nodes_;
};

} // namespace peercache::actors
