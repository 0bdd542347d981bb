#pragma once

#include "common/ids.hpp"
#include "discovery/view.hpp"
#include "link/protocol/topology.hpp"

#include <mutex>
#include <optional>
#include <string>

namespace peercache::client {

/// The address at which a client reaches the node of its own host: the one that the client was
/// given, or the one that the node advertises. Behind a translation of addresses a host need not
/// reach itself at what its node advertises. In a container that shares its node's socket folder
/// the given address may be the container's own, at which no node listens. So the given address is
/// tried first, unless it is a loopback address, which may be another network's; when no connection
/// stands there, the other one is tried at once, and the one that answered is kept. A node that was
/// once this host's stays so without a session, so that a connection which is made meanwhile stands
/// at the address that the topology says afterwards.
///
/// Threads: any.
class own_address {
public:
  explicit own_address(std::string given);

  /// Returns the member with the address at which to connect to it; called for each new attempt.
  /// @param is_own whether the client has a session with this node now
  discovery::member to_dial(const discovery::member& node, bool is_own);
  /// Notes what became of a connection to a member. Returns the member with the address to try at
  /// once, if the attempt has failed and the other address was not tried since `to_dial`.
  std::optional<discovery::member> heard(const incarnation& member, bool stands);
  /// The address at which a node is reached now: that of the last attempt; the one that it
  /// advertises when `to_dial` has not been asked for it.
  std::string host_of(const discovery::member& node) const;
  /// The members and their addresses, as this process reaches them.
  link::topology_ptr as_reached(const link::topology_ptr& next) const;

private:
  std::string host(const discovery::member& node) const;

  const std::string given_; ///< Empty: the address that a node advertises is the only one.
  mutable std::mutex lock_;
  // Guarded by lock_.
  discovery::member node_;   ///< This host's node; no incarnation: none was dialled yet.
  bool advertised_ = false;  ///< Whether the node's own address is used instead of the given one.
  bool stood_ = false;       ///< Whether the connection of the last attempt has stood.
  bool tried_other_ = false; ///< Whether the last attempt has tried both addresses.
};

} // namespace peercache::client
