#pragma once

#include "link/protocol/directory.hpp"

#include <cstdint>
#include <string>

namespace peercache::link {

/// The CLEARING protocol, spoken inside one node; the gateway passes on messages from elsewhere
/// (`wire_version`). The comment at a message begins with who sends it.
using clearing_actor = caf::typed_actor<
    // Gateway, for clients and the CLI: clear this space (space_id) within this many milliseconds.
    // The nodes named in the text, one per line, are gone for good. Answers when the clear is
    // certain, or when the time has passed.
    caf::replies_to<clear_atom, std::uint64_t, std::uint32_t, std::string,
                    from_here>::with<clear_report>,
    // Gateway, for other nodes: tells the spaces that those nodes know to be cleared
    // (cleared_spaces::tell). Answers the spaces that this node knows, once it remembers the told
    // ones and no cleared page is in its memory.
    caf::replies_to<tell_atom, std::string, from_here>::with<std::string>,
    // The node, before it drains for its end: no further clear by way of this node is certain. So
    // nodes that are stopped together need not wait for each other when they start.
    caf::reacts_to<drain_atom, from_here>,
    // The node, at its end: nobody reads its pages from now on. Answers when the other nodes have
    // heard that, or half a second later. False when that could not be stored for this node's next
    // process; the other nodes were not told then either.
    caf::replies_to<leave_atom, from_here>::with<bool>,
    // Gateway: asks how many clears there were, and what keeps the next one from being certain.
    caf::replies_to<stats_atom>::with<metrics::samples>,
    // This node's membership: tells the members that have to hear of clears.
    caf::reacts_to<topology_atom, topology_ptr>,
    // The clearing actor, to itself: tells members that have not heard of a clear, and answers the
    // requests to clear whose time has passed.
    caf::reacts_to<beat_atom, from_here>>;

} // namespace peercache::link
