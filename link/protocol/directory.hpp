#pragma once

#include "link/protocol/atoms.hpp"
#include "link/protocol/calls.hpp"
#include "link/protocol/internal.hpp"
#include "link/protocol/reports.hpp"
#include "link/protocol/samples_wire.hpp"

#include <memory>
#include <string>

namespace peercache::link {

struct topology; // link/protocol/topology.hpp
using topology_ptr = std::shared_ptr<const topology>;

/// The DIRECTORY protocol (`wire_version`); the comment at a message begins with who sends it.
/// Batches are packed records (directory/wire.hpp).
using directory_actor = caf::typed_actor<
    // Another node's directory, which hands records over: record where pages can be read. Answers
    // one publish_outcome byte per record.
    caf::replies_to<publish_atom, std::string>::with<std::string>,
    // Pool: record where pages can be read, answered alike. The numbers are term and version of the
    // sender's view: the shard records nothing while its own view is older.
    caf::replies_to<publish_atom, std::string, std::uint64_t, std::uint64_t>::with<std::string>,
    // Pool, look-up relay, and another node's directory that hands records over: forget these
    // records, unless newer ones have come. Answers how many were forgotten.
    caf::replies_to<withdraw_atom, std::string>::with<std::uint64_t>,
    // Look-up relay, overlap and overview: ask where the pages of these keys can be read.
    caf::replies_to<lookup_atom, std::string>::with<std::string>,
    // Pool of any node: compare the sender's digests with the shard's. Answers the ranges in which
    // the shard has other facts about that node (directory/shard_repair.hpp). The second message
    // lists the shard's facts in such ranges.
    caf::replies_to<compare_atom, std::string>::with<std::uint64_t>,
    caf::replies_to<list_atom, std::string>::with<std::string>,
    // Gateway of this node: give the records to the nodes that will own their keys, within this
    // many milliseconds. `true`: without the records of this node, which leaves. Answers how many
    // records were given away and are left.
    caf::replies_to<give_atom, bool, std::uint32_t, from_here>::with<drain_report>,
    // Gateway: asks for the shard's numbers, and for its state that metrics do not show.
    caf::replies_to<stats_atom>::with<metrics::samples, directory_report>,
    // Gateway of this node: asks which pages with these prefixes (packed u64) the shard has
    // forgotten because their holder is gone.
    caf::replies_to<lost_atom, std::string, from_here>::with<lost_report>,
    // Only this node's membership: tells the members of the cluster. The shard hides the records
    // of nodes that are gone, and forgets them later.
    caf::reacts_to<topology_atom, topology_ptr>,
    // Only this node's membership: the cluster goes on without this node since this view (encoded).
    // The shard forgets everything, for it hears of no changes until a newer view has this node
    // inside.
    caf::reacts_to<leave_atom, std::string, from_here>,
    // Only this node's clearing: pages were cleared. The shard forgets their records.
    caf::reacts_to<clear_atom, from_here>,
    // The directory, to itself: goes on giving the records to the nodes that will own their keys.
    caf::reacts_to<pump_atom, from_here>,
    // The directory, to itself, some time after a new view: forgets keys that other nodes own now.
    caf::reacts_to<beat_atom, from_here>>;

} // namespace peercache::link

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(peercache::link::topology_ptr)
