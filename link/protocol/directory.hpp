#pragma once

#include "link/protocol/atoms.hpp"
#include "link/protocol/reports.hpp"

#include <memory>
#include <string>

namespace peercache::link {

struct topology; // link/protocol/topology.hpp
using topology_ptr = std::shared_ptr<const topology>;

/// The DIRECTORY protocol (`wire_version`). Batches are packed records (directory/wire.hpp).
using directory_actor = caf::typed_actor<
    // Records where pages can be read. Answers one publish_outcome byte a record.
    caf::replies_to<publish_atom, std::string>::with<std::string>,
    // The same from one that knows the view of this term and version: nothing is recorded before
    // that view has come here.
    caf::replies_to<publish_atom, std::string, std::uint64_t, std::uint64_t>::with<std::string>,
    // Pool: forgets records that still have that generation. Answers how many there were.
    caf::replies_to<withdraw_atom, std::string>::with<std::uint64_t>,
    // Client: where the pages of these keys can be read.
    caf::replies_to<lookup_atom, std::string>::with<std::string>,
    // Pool of any node: the ranges in which the shard believes other things of that node than it
    // says, and what the shard believes (directory/shard_repair.hpp).
    caf::replies_to<compare_atom, std::string>::with<std::uint64_t>,
    caf::replies_to<list_atom, std::string>::with<std::string>,
    // Gateway of the own node: give the records to those who will own their keys, within so many
    // milliseconds; with `true` without those of this node, which leaves. Answers how many went.
    caf::replies_to<drain_atom, bool, std::uint32_t>::with<std::uint64_t>,
    // Metrics and gateway: how much is there.
    caf::replies_to<stats_atom>::with<directory_report>,
    // Own membership only: who is in the cluster; forgets what belongs to the dead.
    caf::reacts_to<topology_atom, topology_ptr>,
    // Own membership only: the cluster goes on without this node, since this view (encoded).
    // Forgets everything, for nobody tells it of changes any more, until a newer view has it
    // inside.
    caf::reacts_to<leave_atom, std::string>,
    // Itself: goes on with giving its records away.
    caf::reacts_to<pump_atom>,
    // Itself, some time after a new view: forgets what other nodes own now.
    caf::reacts_to<beat_atom>>;

} // namespace peercache::link

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(peercache::link::topology_ptr)
