#pragma once

#include "link/protocol/calls_wire.hpp"
#include "link/protocol/directory.hpp"
#include "link/protocol/disk.hpp"

namespace peercache::link {

/// The POOL protocol, spoken inside one node; the comment at a message begins with who sends it.
/// Batches are packed records (link/protocol/pool_wire.hpp).
using pool_actor = caf::typed_actor<
    // Gateway and promoter: reserve slots for pages of these lengths. Answers one slot per page;
    // `no_slot` where no room could be made.
    caf::replies_to<reserve_atom, std::string, from_here>::with<std::string>,
    // The pool, to itself: goes on with reserves for which bytes have to be zeroed.
    caf::reacts_to<reserve_atom, from_here>,
    // Gateway: these slots are filled; reserve slots of these lengths for next time. The number is
    // a commit_mode. Answers one page_status byte per page, and slots as `reserve` does, once each
    // page is recorded by a directory owner or all of its owners have answered. `unreachable`: the
    // page is in the pool, and no owner knows it.
    caf::replies_to<commit_atom, std::string, std::uint8_t, std::string,
                    from_here>::with<std::string, std::string>,
    // Gateway and promoter: give back reserved slots (packed slot_id) that will never be filled.
    caf::reacts_to<abandon_atom, std::string, from_here>,
    // Gateway: tells pages (used_page) that other hosts READ; pages that are still in the pool
    // count as used. Answers nothing, when they are counted.
    caf::replies_to<used_atom, std::string, from_here>::with<std::string>,
    // Gateway: keep these pages (used_page) from eviction, for the holder of this tag and for this
    // many milliseconds; 0: the holder no longer needs them. Answers one storage::hold_outcome byte
    // per page.
    caf::replies_to<hold_atom, std::string, std::uint32_t, std::uint32_t,
                    from_here>::with<std::string>,
    // Gateway: forget and withdraw the pages of these keys. Answers one page_status byte per key.
    caf::replies_to<remove_atom, std::string, from_here>::with<std::string>,
    // Promoter: asks where the pages of these keys are in the pool. Answers like a directory
    // look-up.
    caf::replies_to<locate_atom, std::string, from_here>::with<std::string>,
    // Promoter: these slots (filled_slot) hold pages that came from disk; publish them. Answers
    // like `locate`.
    caf::replies_to<restore_atom, std::string, from_here>::with<std::string>,
    // Disk: tells that these pages (stored_page) are on disk now.
    caf::reacts_to<stored_atom, std::string, from_here>,
    // Disk: the pages of these keys are no longer on disk; acknowledge this ticket, if it is not 0.
    caf::reacts_to<gone_atom, std::uint64_t, std::string, from_here>,
    // Disk: its scan is done; publish the pages that it has.
    caf::reacts_to<walk_atom, from_here>,
    // The node, at its start: names the disk's actor.
    caf::reacts_to<hello_atom, disk_actor, from_here>,
    // This node's membership: the cluster had expelled this node and took it back; publish
    // everything again.
    caf::reacts_to<publish_atom, from_here>,
    // Gateway: write the pages that are in memory only to disk, for at most this many milliseconds.
    // Answers how many pages were written, and how many are left.
    caf::replies_to<write_atom, std::uint32_t, from_here>::with<std::uint64_t, std::uint64_t>,
    // Clearing: give up pages that are older than the last clear of their space. Answers how many
    // there were, when none of them is left in memory; those on disk go later.
    caf::replies_to<clear_atom, from_here>::with<std::uint64_t>,
    // The pool, to itself: goes on giving up cleared pages, from this granule on.
    caf::reacts_to<clear_atom, std::uint32_t, from_here>,
    // Gateway: withdraw everything from the directory; the node is leaving.
    caf::replies_to<withdraw_atom, from_here>::with<bool>,
    // Gateway: asks for the pool's numbers.
    caf::replies_to<stats_atom>::with<metrics::samples>,
    // Gateway: asks how pages with these prefixes (packed u64) left this node.
    caf::replies_to<lost_atom, std::string, from_here>::with<lost_report>,
    // Gateway: asks for the pool's largest and most-read pages, and for its spaces.
    caf::replies_to<census_atom, from_here>::with<page_census>,
    // This node's membership: tells the members and the owners of each key; publish again the pages
    // that changed owner.
    caf::reacts_to<topology_atom, topology_ptr>,
    // The node's start: hands over pages (compared_page) that the previous process left, already
    // compared with their checksums. An empty message ends the adoption.
    caf::reacts_to<adopt_atom, std::string, from_here>,
    // The pool, to itself: goes on zeroing the memory of removed pages.
    caf::reacts_to<scrub_atom, from_here>,
    // The pool, to itself, regularly: does the work that no message asks for, such as evicting
    // ahead of need, giving pages to the disk, and telling owners again of pages that none of them
    // has acknowledged.
    caf::reacts_to<beat_atom, from_here>>;

} // namespace peercache::link
