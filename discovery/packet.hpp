#pragma once

#include "discovery/view.hpp"
#include "discovery/view_difference.hpp"

#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace peercache::discovery {

/// The packets of the membership protocol. All packets are one-way: nobody waits for an answer, so
/// a peer that never answers holds up nothing. A lost packet is made good by the next heartbeat.
/// discovery/packet_codec.hpp has the bytes of packets, whose version is `packet_wire_version`.

/// "Take me in." Sent to every master and seed that the sender knows, once a heartbeat until the
/// view contains the sender as `who` describes it.
struct join_packet {
  member who;
  view_stamp known; ///< The newest view that the sender has heard of.
  /// Whether the sender, with this incarnation, has been in a view.
  bool was_member = false;
  /// Whether a node has passed the packet on to a master; a forwarded packet is not passed on
  /// again.
  bool forwarded = false;
  bool operator==(const join_packet&) const = default;
};

/// Why a node is not taken in.
enum class refusal : std::uint8_t {
  name_taken = 1, ///< A member of the same name, or with the same node id, lives elsewhere.
  /// Nobody, or another process, answers at the address that the joining node advertises.
  out_of_reach = 2,
  no_majority = 3, ///< Too few masters answer for a change of the view.
  full = 4,        ///< The cluster has as many members as it may have.
  malformed = 5,   ///< No member can have this name, host or incarnation.
};

/// "You cannot join." Sent to the joining node by the leader, or by a node that reaches no master.
struct refused_packet {
  refusal why = refusal::no_majority;
  std::string reason; ///< The refusal in words, for the operator of the joining node.
  bool operator==(const refused_packet&) const = default;
};

/// "I live." Sent by every member to every master; by the leader to seeds that are not members; by
/// masters to former members (another half of the cluster may be at these addresses, or a process
/// that knows no master); and by a node that hears too few masters to seeds and other members.
struct heartbeat_packet {
  endpoint from;
  incarnation inc;
  view_stamp known;
  /// Whether the sender waits for the answer. Otherwise a master answers another master of the same
  /// view with its own next heartbeat (`heard`).
  bool urgent = true;
  /// The receiving process, if the sender is a master that got a heartbeat of that process within
  /// the last five quarters of a heartbeat: to that process this heartbeat is the answer.
  std::optional<incarnation> heard;
  bool operator==(const heartbeat_packet&) const = default;
};

/// "I live too." Sent to the sender of a heartbeat, unless the sender's next heartbeat says it, and
/// to a process whose packet names a newer view than the answering node's. A node that gets an
/// answer with an older stamp than its own view's sends its view, as a difference where the stamp
/// is that of the view before.
struct heartbeat_answer_packet {
  endpoint from;
  incarnation inc;
  /// The newest view that the sender has heard of; of term 0 also when the sender could not apply a
  /// difference and needs the whole view.
  view_stamp known;
  /// Whether the sender was never in a view: the process that a view has at the sender's address is
  /// then gone.
  bool fresh = false;
  /// Whether enough masters of the sender's view answer the sender for that view to be changed.
  bool in_touch = false;
  /// View of the node that answers; empty unless the heartbeat came with the stamp of an older
  /// view.
  std::optional<view> newer;
  /// Takes the place of `newer` where the heartbeat came with the stamp of the view before the
  /// answering node's: that node's view as the difference between the two.
  std::optional<view_difference> change;
  bool operator==(const heartbeat_answer_packet&) const = default;
};

/// "This is the cluster." Sent at each change by the process that decided the view, to members that
/// were not in the view before and to processes that are no longer members; and by any node to a
/// node with an older view.
struct view_packet {
  view latest;
  bool operator==(const view_packet&) const = default;
};

/// "This has changed in the cluster." Sent at each change by the process that decided the view, to
/// the members that were in the view before. A receiver that does not have the base of the
/// difference sends a heartbeat answer that names no view to `from`, and gets the whole view.
struct view_change_packet {
  endpoint from;
  view_difference change;
  bool operator==(const view_change_packet&) const = default;
};

/// "I go." Sent by a leaving process to all masters and seeds.
struct leave_packet {
  incarnation inc;
  bool operator==(const leave_packet&) const = default;
};

/// An attempt to make the next view. The attempt with the higher term wins over another; the issuer
/// is the process that makes the attempt, so no two attempts are equal.
struct ballot {
  std::uint64_t term = 0;
  incarnation issuer;
  auto operator<=>(const ballot&) const = default;
};

/// A view that a master accepted as the next one, and the attempt in which the master accepted it.
/// The cluster may or may not have decided on this view.
struct accepted_view {
  ballot in;
  view value;
  bool operator==(const accepted_view&) const = default;
};

/// "Promise to vote in no older attempt at the view after `base`, and say what you accepted there."
/// Sent by the proposer to all masters of `base`; the leader of `base` skips this step in its first
/// attempt.
struct prepare_packet {
  endpoint from;
  node_id who; ///< Id of the sender.
  view_stamp base;
  ballot attempt;
  bool operator==(const prepare_packet&) const = default;
};

/// "Accept this as the view after `base`." Sent by the proposer to all masters of `base`.
struct propose_packet {
  endpoint from;
  view_stamp base;
  ballot attempt;
  bool inherited = false; ///< `value` is from an earlier attempt and must be finished as it is.
  view value;
  bool operator==(const propose_packet&) const = default;
};

enum class voting_step : std::uint8_t { prepare = 1, propose = 2 };

enum class verdict : std::uint8_t {
  granted = 1,
  refused = 2, ///< The voter voted in a newer attempt, or a better placed master lives.
  vetoed = 3   ///< The view lacks a member that the voter hears.
};

/// The answer of a master to `prepare` or `propose`.
struct vote_packet {
  node_id voter;
  incarnation inc;
  view_stamp base;
  ballot attempt; ///< The attempt that this vote answers.
  voting_step step = voting_step::prepare;
  verdict answer = verdict::refused;
  /// Whether the voter has not adopted the view `base`, and runs in the place of a master of that
  /// view.
  bool successor = false;
  ballot promised; ///< The newest attempt that this voter has voted in.
  /// With a veto: members that the voter hears and that the proposed view lacks.
  std::vector<incarnation> alive;
  /// In an answer to `prepare`: the view that the voter accepted before.
  std::optional<accepted_view> accepted;
  bool operator==(const vote_packet&) const = default;
};

using packet = std::variant<join_packet, refused_packet, heartbeat_packet, heartbeat_answer_packet,
                            view_packet, leave_packet, prepare_packet, propose_packet, vote_packet,
                            view_change_packet>;

} // namespace peercache::discovery
