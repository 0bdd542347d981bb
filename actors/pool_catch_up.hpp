#pragma once

#include "actors/pool_actor.hpp"

// What is in memory and not on disk is written when the disk has time for it: pages that found its
// queue full or the device failing, and all of them before a node goes.
namespace peercache::actors {

/// Goes on with that, if it is due: at each beat, and whenever the disk has taken something. With
/// `on_evict` only while somebody waits for `write_out`.
void catch_up(pool_pointer self);

/// Answers how many pages the disk has taken, and how many are in memory only: when there are none
/// of these, when the disk takes no more, or when the time is over.
caf::result<std::uint64_t, std::uint64_t> write_out(pool_pointer self, std::uint32_t within_ms);

} // namespace peercache::actors
