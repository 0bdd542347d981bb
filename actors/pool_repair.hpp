#pragma once

#include "actors/pool_actor.hpp"

// The pool actor's half of the comparison with the directory's shards (actors/record_repair.hpp).
namespace peercache::actors {

/// The comparison goes on, if time and budget allow.
void repair_on(pool_pointer self);

/// A new view: who owns what, and with whom to compare.
void repair_follow(pool_pointer self);

} // namespace peercache::actors
