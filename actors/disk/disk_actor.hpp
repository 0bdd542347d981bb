#pragma once

#include "actors/disk/disk_service.hpp"
#include "actors/link_names.hpp"
#include "link/protocol/disk.hpp"
#include "link/protocol/pool.hpp"

#include <unordered_map>

namespace peercache::actors {

struct disk_actor_state {
  disk_actor_state() = default;
  disk_service* disk = nullptr;
  pool_actor pool;
  std::uint64_t next_request = 1;
  /// Commands that the disk's thread has not answered.
  std::unordered_map<std::uint64_t, caf::response_promise> waiting;
  static inline const char* name = "disk";
};

/// The disk tier, as the other actors see it: hands their messages to the disk's thread and its
/// answers back. Threads: scheduler. Asks nobody; tells the pool what is on disk. Ownership:
/// borrows the service, which ends after the actor. If the disk is off, the actor answers that it
/// has no pages.
disk_actor::behavior_type run_disk_actor(disk_actor::stateful_pointer<disk_actor_state> self,
                                         disk_service* disk, const pool_actor& pool);

} // namespace peercache::actors
