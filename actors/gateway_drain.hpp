#pragma once

#include "actors/gateway_actor.hpp"

// What the gateway has the others do when its node is to go, or to own no keys.
namespace peercache::actors {

/// For good: pages that are in memory only are written to disk, the shard's records go to those who
/// will own them, the pages leave the directory, and the node the cluster. Answers when all of that
/// is done or its time is over.
caf::result<bool> leave(gateway_pointer self);

/// The node stays: its pages are written to disk and can still be read, its shard's records go to
/// those who own them now, and it takes no pages until that is undone. Answers how many records
/// went.
caf::result<std::uint64_t> set_drained(gateway_pointer self, bool drained);

} // namespace peercache::actors
