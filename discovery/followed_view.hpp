#pragma once

#include "discovery/view.hpp"

#include <chrono>

namespace peercache::discovery {

/// Decides which view a client follows: the newest that it hears of, unless the cluster has lost
/// that view. A shard may have told the client of a view whose members ended before any other node
/// had it. A view counts as lost when the process that made it is out of reach, and is not a member
/// of the older view that the node of the client's host holds on to. Unless both are true, the node
/// of the client's host only lags behind.
///
/// Threads: none; time is an argument.
class followed_view {
public:
  using time_point = std::chrono::steady_clock::time_point;

  /// How long the node of the client's host has to hold on to an older view before the client goes
  /// back to that view: longer than a node lags behind others, or stands still unnoticed.
  static constexpr std::chrono::milliseconds go_back_after{3000};

  /// Whether a client that follows `followed` takes the view `next` that the node of its host
  /// tells: a newer view, or a view that shares no member with `followed`, since a cluster that is
  /// started anew counts its views from one again.
  bool takes_of_own_node(const view& next, const view& followed, time_point now);
  /// Whether a client that follows `followed` takes the view `next`, which the shard of another
  /// node told of.
  bool takes_of_other_node(const view& next, const view& followed) const noexcept {
    return next.newer_than(followed);
  }
  /// The view of the host's node that the client goes back to; null: the client stays with
  /// `followed`. Valid until that node tells another view.
  /// @param issuer_may_live there is a connection to the process that made `followed`, or nobody
  /// has tried yet to get one
  const view* back_from(const view& followed, bool issuer_may_live, time_point now) const;
  /// Whether the host's node holds on to an older view than `followed`.
  bool is_ahead(const view& followed) const noexcept {
    return own_nodes_.term != 0 && followed.stamp() > own_nodes_.stamp();
  }

private:
  view own_nodes_; ///< The last view that the node of the host has told; of term 0: none.
  time_point told_at_{};
};

} // namespace peercache::discovery
