#pragma once

#include "common/ids.hpp"
#include "discovery/followed_view.hpp"
#include "link/beats.hpp"
#include "link/protocol/topology.hpp"

#include <chrono>
#include <functional>
#include <map>
#include <memory>

namespace peercache::link {

/// Keeps one connection to each member of the view; a callback hears of every change. A node dials
/// the control ports of members and says hello to their gateways. In a client other objects keep
/// the connections (`links_options::reach`), which go to look-up ports.
using links_actor = caf::typed_actor<
    // Membership (in a node) or session (in a client): tells the view of this host's node; the
    // actor connects to the view's members.
    caf::reacts_to<view_atom, std::string, from_here>,
    // Session: tells the view of another node, after the shard of that node has named the view.
    caf::reacts_to<tell_atom, std::string, from_here>,
    // Keeper of a client's connections: the connection to the member of this incarnation (high and
    // low half) stands, or there is none.
    caf::reacts_to<hello_atom, std::uint64_t, std::uint64_t, bool, from_here>,
    // Gateway: asks which ports of other members this node cannot reach.
    caf::replies_to<stats_atom>::with<metrics::samples, links_report>,
    // Itself: dials members without a connection again, and tries ports.
    caf::reacts_to<beat_atom, from_here>>;

/// Options of the links of a process. A node sets `self` and dials by `connector`; a client sets
/// `reach` and `keep_only`.
///
/// Threads: the functions are called in the links actor, and do not block. Lifetime: what the
/// functions refer to outlives the actor.
struct links_options {
  std::string cluster;
  /// Name of this process; sent in hellos, for the log of the node that answers.
  std::string own_name;
  /// A node's own handles, complete before the first view arrives; null in a client process.
  std::shared_ptr<const peer> self;
  std::chrono::milliseconds retry{500};
  std::chrono::milliseconds hello_timeout{1000};
  connector_actor connector;
  /// How often a node tries the data and the look-up port of each member; a client tries none. A
  /// port that has failed once is tried again after a quarter of this.
  std::chrono::milliseconds try_ports_every{8000};
  /// In a client, called by this actor for each member without a connection: to connect to it, and
  /// say so by a message. Null in a node.
  std::function<void(const discovery::member&)> reach;
  /// In a client, called by this actor with each new view: to close the connections to all
  /// processes that are not in the view.
  std::function<void(const discovery::view&)> keep_only;
  /// Called by this actor with each new topology.
  std::function<void(const topology_ptr&)> publish;
};

/// State of the links: the view that this process follows, and how each of its members is reached.
///
/// Threads: the actor's messages, one at a time. Invariants: `links` has an entry for each member
/// of `view` and for no other process; `ring` is the ring of `view`.
struct links_state {
  links_state() = default;

  /// How the trials of one port of a member have ended.
  struct port_trial {
    port_trial() = default;
    bool trying = false;
    unsigned failures = 0;      ///< Trials in a row that failed, since the last one that succeeded.
    std::string why;            ///< The reason of the last failure, in words.
    std::uint64_t since_ms = 0; ///< When the first of `failures` was, in ms since 1970.
  };

  struct link {
    link() = default;
    peer handles;
    bool dialing = false;
    caf::actor_clock::time_point retry_at{};
    caf::actor_clock::time_point tried_at{}; ///< When the ports were tried last.
    caf::actor_clock::time_point try_at{};   ///< When the ports are tried next.
    port_trial data;
    port_trial lookup;
  };

  links_options options;
  discovery::view view;
  discovery::hash_ring ring;
  discovery::former_rings past;
  std::map<incarnation, link> links;
  /// In a client: decides which views count; a node takes newer views only.
  discovery::followed_view followed;
  beats beat;
  static inline const char* name = "links";

  /// The node that told a view: that of this host, or another one.
  enum class source { own_node, other_node };

  /// Takes a view if this process has to follow it: forgets members that left, adds those that
  /// came. False: the view changes nothing.
  bool adopt(discovery::view next, source told_by, caf::actor_clock::time_point now);
  /// In a client: goes back to the older view of its host's node, if the cluster has lost the newer
  /// view that the client follows (discovery/followed_view.hpp). False: the view stays.
  bool go_back(caf::actor_clock::time_point now);
  /// Whether a member has no connection.
  bool misses_some() const noexcept;
  topology_ptr snapshot() const;
  links_report report() const;
  /// Drops the connection to a member, which is dialled again at `retry_at`.
  static void cut(link& known, caf::actor_clock::time_point retry_at);
  /// Forgets the handles of the gateway at `address`; false when no member has that gateway.
  bool lost(const caf::actor_addr& address, caf::actor_clock::time_point retry_at);

private:
  void take(discovery::view next, caf::actor_clock::time_point now);
};

links_actor::behavior_type run_links(links_actor::stateful_pointer<links_state> self,
                                     links_options options);

} // namespace peercache::link
