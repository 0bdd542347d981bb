#pragma once

#include "link/protocol/directory.hpp"

namespace peercache::link {

/// The MEMBERSHIP protocol (`wire_version`). Packets are encoded discovery messages
/// (discovery/packet_codec.hpp). The comment at a message begins with who sends it.
using membership_actor = caf::typed_actor<
    // Other nodes' membership actors: send one message of the membership protocol.
    caf::reacts_to<packet_atom, std::string>,
    // A beat: time passes. The node sends the first one when all its actors are wired; then this
    // actor sends itself one after the other.
    caf::reacts_to<beat_atom, from_here>,
    // Gateway: this node is leaving; tell the masters. Answers once the cluster can do without its
    // vote. An answer may never come while other masters are unreachable.
    caf::replies_to<leave_atom, from_here>::with<bool>,
    // Gateway: this node has to give its keys away (`true`), or may own keys again. Answers once
    // the masters were asked; a view says when it is done.
    caf::replies_to<drain_atom, bool, from_here>::with<bool>,
    // Gateway: the member of this name is gone for good. Answers whether this node leads and a
    // member of this name is gone; a later view no longer says so.
    caf::replies_to<forget_atom, std::string, from_here>::with<bool>,
    // Gateway: asks what this node believes of the cluster.
    caf::replies_to<stats_atom>::with<metrics::samples, membership_report>,
    // Gateway: asks for the encoded view.
    caf::replies_to<view_atom>::with<std::string>>;

} // namespace peercache::link
