#pragma once

#include "actors/pool/pool_actor.hpp"

// Writes pages that are in memory and not on disk when the disk has time: pages that found its
// queue full or the device failing, and all pages that are not on disk before a node leaves.
namespace peercache::actors {

/// Whether `catch_up` has something to do: a caller waits for `write_out`, or the disk takes pages
/// that are in memory and not on disk.
bool has_to_catch_up(const pool_state& state, disk_catch_up::time_point now);

/// Goes on with the search for unwritten pages if it is due. Call at each beat, and whenever the
/// disk has taken pages. Without write-through it works only while a caller waits for `write_out`.
void catch_up(pool_pointer self);

/// Writes all pages that are in memory only to disk. Answers how many pages the disk has taken
/// since the call, and how many are in memory only. The answer comes when none are left, when the
/// disk takes no further page, or when the time has passed.
caf::result<std::uint64_t, std::uint64_t> write_out(pool_pointer self, std::uint32_t within_ms);

} // namespace peercache::actors
