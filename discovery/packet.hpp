#pragma once

#include "discovery/view.hpp"

#include <optional>
#include <string>
#include <variant>

namespace peercache::discovery {

/// What membership machines tell each other. All are one-way: nobody waits for an answer, so a peer
/// that never answers holds up nothing. A packet that is lost is made good by the next heartbeat.

/// "Take me in." To every master and seed that the sender knows, once a heartbeat until it is in.
struct join_packet {
  member who;
  view_stamp known;        ///< The newest view that the sender has heard of.
  bool was_member = false; ///< Comes back with the same incarnation, having been expelled.
  bool forwarded = false;  ///< By a node that does not lead; never forwarded twice.
  bool operator==(const join_packet&) const = default;
};

/// "You cannot join." From the leader to the joining node.
struct refused_packet {
  std::string reason;
  bool operator==(const refused_packet&) const = default;
};

/// "I live." From every member to every master, and from the leader to seeds that are not members
/// (they may belong to another half of the cluster).
struct heartbeat_packet {
  endpoint from;
  incarnation inc;
  view_stamp known;
  bool operator==(const heartbeat_packet&) const = default;
};

/// "I live too." To the sender of a heartbeat. Whoever learns here that the other side's view is
/// older sends its own.
struct heartbeat_answer_packet {
  endpoint from;
  incarnation inc;
  view_stamp known;
  std::optional<view> newer; ///< There when the heartbeat's sender knew an older view.
  bool operator==(const heartbeat_answer_packet&) const = default;
};

/// "This is the cluster." From the leader to all members at each change, and to whoever is behind.
struct view_packet {
  view latest;
  bool operator==(const view_packet&) const = default;
};

/// "I go." From a draining member to all masters.
struct leave_packet {
  incarnation inc;
  bool operator==(const leave_packet&) const = default;
};

using packet = std::variant<join_packet, refused_packet, heartbeat_packet, heartbeat_answer_packet,
                            view_packet, leave_packet>;

} // namespace peercache::discovery
