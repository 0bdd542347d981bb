#pragma once

#include "common/ids.hpp"
#include "link/protocol/topology.hpp"

#include <chrono>
#include <functional>
#include <map>
#include <memory>

namespace peercache::link {

/// Keeps one connection to each member of the view and tells who needs to know.
using links_actor = caf::typed_actor<
    // Membership (node) or session (client): the members to be connected with.
    caf::reacts_to<view_atom, std::string>,
    // Itself: dials again who is not connected.
    caf::reacts_to<beat_atom>>;

struct links_options {
  std::string cluster;
  std::string own_name; ///< Said in hellos, for the other side's log.
  /// A node's own handles, complete before the first view arrives; null in a client process.
  std::shared_ptr<const peer> self;
  std::chrono::milliseconds retry{500};
  std::chrono::milliseconds hello_timeout{1000};
  connector_actor connector;
  std::function<void(const topology_ptr&)> publish; ///< Called in this actor with every change.
};

struct links_state {
  links_state() = default;

  struct link {
    link() = default;
    peer handles;
    bool dialing = false;
    caf::actor_clock::time_point retry_at{};
  };

  links_options options;
  discovery::view view;
  discovery::hash_ring ring;
  discovery::former_rings past;
  std::map<incarnation, link> links;
  static inline const char* name = "links";

  /// Whether this view is of a cluster that was started anew, so that its number says nothing: a
  /// client outlives all nodes that it knows, and their successors count from one again.
  bool begins_anew(const discovery::view& next) const;
  /// Takes a newer view: forgets who left, knows who came. False when it is not newer.
  bool adopt(discovery::view next, caf::actor_clock::time_point now);
  topology_ptr snapshot() const;
  /// Forgets the handles of the gateway at `address`; false when it is none of ours.
  bool lost(const caf::actor_addr& address, caf::actor_clock::time_point retry_at);
};

links_actor::behavior_type run_links(links_actor::stateful_pointer<links_state> self,
                                     links_options options);

} // namespace peercache::link
