#pragma once

#include "actors/gateway/gateway_actor.hpp"

// How the gateway conducts the other actors when its node has to leave, or to give up all its keys.
namespace peercache::actors {

/// Leaves for good: pages that are in memory only are written to disk, the shard's records go to
/// the nodes that will own them, the pages leave the directory, and the node leaves the cluster.
/// Answers when all of that is done or its time has passed.
caf::result<bool> leave(gateway_pointer self);

/// With `drained` the node stays, but its pages are written to disk (and can still be read), its
/// shard's records go to their new owners, and it takes no new pages until `drained` is false.
/// Answers what became of pages and records.
caf::result<drain_report> set_drained(gateway_pointer self, bool drained);

} // namespace peercache::actors
