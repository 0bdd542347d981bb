#pragma once

#include "link/protocol/directory.hpp"

#include <cstdint>
#include <string>

namespace peercache::link {

/// The CLEARING protocol, spoken inside one node; its gateway passes on what comes from elsewhere
/// (`wire_version`).
using clearing_actor = caf::typed_actor<
    // Gateway, for clients and the CLI: clear this space (space_id), within so many milliseconds;
    // the nodes of these names, a line each, are gone for good. Answers when it is certain, or when
    // the time is up.
    caf::replies_to<clear_atom, std::uint64_t, std::uint32_t, std::string>::with<clear_report>,
    // Gateway, for other nodes: what they know (cleared_spaces::tell). Answers what this node
    // knows, once it has kept it and no page of before is in its memory.
    caf::replies_to<tell_atom, std::string>::with<std::string>,
    // The node, before it drains for its end: no clear by way of it is certain any more, so nodes
    // that are stopped at once need not wait for each other when they start.
    caf::reacts_to<drain_atom>,
    // The node, at its end: nobody reads pages of it any more. Answers when the others have heard
    // that, or half a second later; false, and they have not, when the next process would not know.
    caf::replies_to<leave_atom>::with<bool>,
    // Gateway: how many clears there were, and what keeps the next one from being certain.
    caf::replies_to<stats_atom>::with<clearing_report>,
    // Own membership: who is to hear it.
    caf::reacts_to<topology_atom, topology_ptr>,
    // Itself: tells those who have not heard it.
    caf::reacts_to<beat_atom>,
    // Itself: looks whether the time of some clear is up.
    caf::reacts_to<turn_atom>>;

} // namespace peercache::link
