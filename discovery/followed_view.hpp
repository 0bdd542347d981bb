#pragma once

#include "discovery/view.hpp"

#include <chrono>

namespace peercache::discovery {

/// Decides which of the views that it hears of a client follows: the newest one, unless that one
/// has ended unknown. A shard may have told the client of a view whose members ended before any
/// other node had it. The process that made it is then out of reach, and not in the older view that
/// the node of the client holds on to. Without these signs that node only lags behind.
///
/// Threads: none; time is an argument.
class followed_view {
public:
  using time_point = std::chrono::steady_clock::time_point;

  /// How long the node of the client has to hold on to an older view: longer than a node lags
  /// behind others, or stands still unnoticed.
  static constexpr std::chrono::milliseconds go_back_after{3000};

  /// Whether a client that follows `followed` takes a view that the node of its host tells: a newer
  /// one, or one that shares no member with it, since a cluster that is started anew counts from
  /// one again.
  bool takes_of_own_node(const view& next, const view& followed, time_point now);
  /// Whether it takes a view that another node tells, whose shard has spoken of it.
  bool takes_of_other_node(const view& next, const view& followed) const noexcept {
    return next.newer_than(followed);
  }
  /// The view of the host's node that the client goes back to; null: it stays with `followed`.
  /// Valid until that node tells another one.
  /// @param issuer_may_live there is a connection to the process that made `followed`, or nobody
  /// has tried yet to get one
  const view* back_from(const view& followed, bool issuer_may_live, time_point now) const;

private:
  view own_nodes_; ///< The last view that the node of the host has told; of term 0: none.
  time_point told_at_{};
};

} // namespace peercache::discovery
