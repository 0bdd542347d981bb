#pragma once

#include "client/members/promote_call.hpp"
#include "client/session/session.hpp"
#include "discovery/view.hpp"
#include "link/beats.hpp"
#include "link/links_actor.hpp"

#include <optional>
#include <unordered_set>

namespace peercache::client {

struct session_actor_options {
  std::string node_host;
  std::uint16_t node_port = 0;
  std::string cluster;
  std::string client_name;
  /// Name or number of the group with which the node's pool may be shared; empty: with none.
  std::string group;
  link::connector_actor connector;
  link::links_actor links;
  member_asker ask; ///< Asks members, from any thread.
  std::shared_ptr<session_board> board;
  std::function<metrics::samples()> report_totals;
  call_log* calls = nullptr; ///< Borrowed; null: the node is told of no calls.
  /// Remembers where a page is; `prefetch` calls it for each page that it found.
  std::function<void(const page_key&, const directory::page_location&)> remember;
};

struct session_actor_state {
  session_actor_state() = default;
  session_actor_options options;
  bool connecting = false;
  pending_commit_ptr in_flight; ///< The commit that is on its way to the node.
  /// Requests for slots that are on their way to the node. Bounded by the number of caller threads.
  std::unordered_set<slot_request_ptr> reserving;
  bool telling_gpu = false; ///< A report of blocks on the GPU is on its way to the node.
  link::beats beats;
  caf::actor_clock::time_point tell_gpu_at{}; ///< No report of the GPU is sent before this time.
  // When uses, totals and calls are told next, if there is news of them.
  caf::actor_clock::time_point tell_uses_at{};
  caf::actor_clock::time_point tell_totals_at{};
  caf::actor_clock::time_point tell_calls_at{};
  discovery::view nodes_view; ///< The last view that this host's node has told.
  /// The totals that the node was told last in this session, if any.
  std::optional<metrics::samples> told;
  static inline const char* name = "session";
};

/// Keeps the session with this host's node: opens it, opens it again when the node was gone, sends
/// commits, receives views, reports totals once a second when they have changed, tells other nodes
/// which records were false and which pages were READ. Threads: scheduler. Errors: slots that were
/// filled in a node that is gone, and requests to it, fail at once.
session_actor::behavior_type
run_session_actor(session_actor::stateful_pointer<session_actor_state> self,
                  session_actor_options options);

} // namespace peercache::client
