#pragma once

#include "discovery/former_rings.hpp"
#include "discovery/hash_ring.hpp"
#include "discovery/view.hpp"
#include "link/protocol/gateway.hpp"

#include <memory>
#include <vector>

namespace peercache::link {

/// One member and the way to it. In a node: the member's actors, null while there is no connection.
/// A client has no actors of members, but connections to their look-up ports
/// (client/members/member_channels.hpp).
struct peer {
  peer() = default;
  discovery::member self;
  gateway_actor gateway;
  directory_actor directory;
  membership_actor membership;
  /// The port where the member answers clients (actors/serving/lookup_server.hpp).
  std::uint16_t lookup_port = 0;
  bool reached = false; ///< In a client: the connection to the member stands.
  bool tried = false;   ///< At least one attempt to connect has ended, well or not.
  bool linked() const noexcept { return reached || directory; }
};

/// A view, its ring, and the way to each member: all that one process needs to ask the right shard.
/// Immutable once shared; every new view and every change of a connection makes a new topology.
struct topology {
  topology() = default;
  discovery::view view;
  discovery::hash_ring ring;
  std::vector<peer> peers; ///< The peer of each of view.members, in the same order: by node_id.
  /// Rings that newer views have replaced. Old rings are dropped only with the next view, so users
  /// pass the time to get those that are still to be asked.
  discovery::former_rings past;

  /// Finds a member by binary search. Null when there is no such member.
  const peer* find(node_id id) const noexcept;
  /// As `find(id)`, but null when the member is another process than `inc`.
  const peer* find(node_id id, const incarnation& inc) const noexcept;
  /// Finds a member by looking at all of them.
  const peer* find(const incarnation& inc) const noexcept;
};

} // namespace peercache::link
