#pragma once

#include "actors/gateway/client_calls.hpp"
#include "actors/gateway/session_table.hpp"
#include "actors/link_names.hpp"
#include "actors/membership/turned_away.hpp"
#include "actors/overlap/overlap_actor.hpp"
#include "actors/pool/unmapped_clients.hpp"
#include "common/limits.hpp"
#include "common/log_limit.hpp"
#include "discovery/view.hpp"
#include "link/beats.hpp"
#include "link/links_actor.hpp"
#include "link/protocol/message_types.hpp"
#include "link/protocol/topology.hpp"

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace peercache::actors {

/// Options of a node's gateway: values that it reports or tells sessions, the actors that it passes
/// requests on to, and functions that ask parts of the node without an actor. A node sets all
/// of them; without a disk tier `promoter` is null.
///
/// Threads: the functions are called in the gateway only, and do not block. Lifetime: what the
/// functions refer to outlives the gateway.
struct gateway_options {
  std::string cluster;
  std::string version;
  std::string data_plane; ///< Name and reason of the chosen data plane, shown in `status`.
  bool tls = false;       ///< Whether the control, look-up and data ports are under TLS.
  bool insecure = false;  ///< Whether other hosts reach a port that is not under TLS.
  std::string pool_name;
  discovery::member self;
  std::uint16_t lookup_port = 0;
  std::uint32_t directory_replicas = limits::directory_replicas_default;
  std::uint8_t mirror = 0; ///< The value of pool.mirror, which sessions are told.
  /// Time that a node has for leaving, and for writing pages to disk when it drains.
  std::chrono::milliseconds drain_timeout{10'000};
  /// Part of a drain's time for giving the shard's records away.
  std::chrono::milliseconds hand_over_timeout{5000};
  /// Time for which a leaving node keeps its vote, for other nodes that cannot decide without that
  /// vote.
  std::chrono::milliseconds vote_timeout{3000};
  directory_actor directory;
  directory_actor door; ///< The directory as other nodes have it; null: `directory`.
  membership_actor membership;
  pool_actor pool;
  disk_actor disk;
  promoter_actor promoter;
  clearing_actor clearing;
  links_actor links;
  overlap_actor overlap;
  /// The options that all members of a cluster need alike, by their names.
  std::map<std::string, std::string> common_options;
  /// Share of the disk's scan that is done; the node is not ready before it is 1.
  std::function<double()> disk_scanned = [] { return 1.0; };
  /// Whether this node knows the clears that it missed while it was away; clients are let in then.
  std::function<bool()> caught_up = [] { return true; };
  /// Names of the nodes that this node's previous process left behind and that the node waits for.
  std::string left_behind;
  /// `session_is_dead` and `session_is_held` ask the kernel and no clock. `session_is_dead`: no
  /// process can still write to the session's slots. `session_is_held`: a process that has the pool
  /// mapped holds the session's lock.
  std::function<bool(std::uint32_t lock_index)> session_is_dead;
  std::function<bool(std::uint32_t lock_index)> session_is_held;
  /// Why clients of this host cannot map the pool, in words; empty while they can.
  std::function<std::string()> pool_fault = [] { return std::string{}; };
  /// Returns the points and events of this node's history that have higher numbers than these.
  std::function<history_report(std::uint64_t after_point, std::uint64_t after_event)> history =
      [](std::uint64_t, std::uint64_t) { return history_report{}; };
  /// Called in this actor when readiness changes: whether the node takes work, and if not, why.
  std::function<void(bool ready, const std::string& reason)> ready;
};

/// State of the gateway, and what it decides without asking other actors: whether the node is ready
/// and takes pages.
///
/// Threads: the gateway's messages, one at a time. Invariant: `change`, if there is one, leads from
/// the view of `change_base` to `view`.
struct gateway_state {
  gateway_state() = default;
  /// Time between two beats while a session may be dead, a client waits, or the node is not ready.
  static constexpr std::chrono::milliseconds beat{500};

  /// A client that asked for a session before this node had caught up with clears.
  struct early_client {
    std::string name;
    session_listener events;
    caf::typed_response_promise<session_welcome> promise;
    std::uint32_t beats = 0; ///< Beats since the client came.
  };

  gateway_options options;
  session_table sessions;
  client_calls calls;
  unmapped_clients unmapped;
  std::vector<early_client> early;
  link::beats beats;
  std::string view; ///< The newest view, encoded.
  /// The difference to `view` from the view before, encoded; empty: none.
  std::string change;
  std::string change_base; ///< The encoded stamp of the view before.
  bool in_view = false;
  /// Why this process is in no view of the cluster, in the words of the membership actor; empty: it
  /// is in one, or membership has not said yet.
  std::string outside;
  bool leaving = false;   ///< The node is leaving for good: `leave` was called.
  bool withdraws = false; ///< The node's pages are leaving the directory.
  bool drained = false;   ///< An operator has drained this node and has not undone that.
  /// Why clients cannot map the pool, as `options.pool_fault` said last; empty: they can.
  std::string pool_fault;
  /// Whether a beat has something to do soon: a client waits, one may have died, or the node is not
  /// ready for a reason that may end without a word.
  bool hurries() const {
    return !early.empty() || !sessions.silent().empty() || (takes_pages() && !ready());
  }
  /// Whether clients may reserve slots for new pages. Filled slots are committed in any case.
  bool takes_pages() const noexcept { return !leaving && !drained; }
  caf::actor_clock::time_point started{};
  turned_away refused; ///< Nodes and clients whose hellos are refused.
  log_limit refusals;  ///< Limits log lines about refused hellos and reports, by the sender's name.
  static inline const char* name = "gateway";

  bool ready() const {
    return in_view && outside.empty() && options.caught_up() && takes_pages() &&
           options.disk_scanned() >= 1 && pool_fault.empty();
  }
  std::string unready_reason() const;
  /// Replaces the newest view. False: it stays as it was.
  bool take_view(const discovery::view& next);
  /// The newest view for somebody who knows the view of this encoded stamp.
  const std::string& view_for(const std::string& known) const {
    return !change.empty() && known == change_base ? change : view;
  }
  void tell_readiness() const { options.ready(ready(), unready_reason()); }
};

using gateway_pointer = gateway_actor::stateful_pointer<gateway_state>;

/// Returns the error with which a request is refused; `why` goes to its sender, in words.
caf::error refused(const std::string& why);

/// The one actor of a node that is published for other processes. Threads: scheduler. The gateway
/// forwards requests to the other actors of its node; it keeps the sessions itself, decides whether
/// the node is ready, conducts leaving and draining, and joins all actors' reports into one status.
gateway_actor::behavior_type run_gateway(gateway_pointer self, gateway_options options);

} // namespace peercache::actors
