#pragma once

#include "actors/directory/shared_shard.hpp"
#include "actors/link_names.hpp"
#include "link/protocol/directory.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace peercache::actors {

/// What `directory_door` needs: the shard, and the actor that keeps it.
struct directory_door_options {
  std::shared_ptr<shared_shard> shard;
  directory_actor keeper;
};

struct directory_door_state {
  directory_door_state() = default;
  directory_door_options options;
  /// Changes that were passed on to the keeper and are not answered yet.
  std::size_t changes_passed_on = 0;
  static inline const char* name = "door";
};

/// The directory of this node as other nodes have it. Changes of a few records that the shard takes
/// at once (`shared_shard::try_publish`, `try_withdraw`) are made and answered where they arrive;
/// all else is passed on to the keeper. A change that comes while the keeper has yet to answer
/// another one is passed on as well, so that all changes of one sender are made in the order in
/// which they were sent. Threads: the loop of the sockets (link/loop_actor.hpp); waits for nothing.
directory_actor::behavior_type
run_directory_door(directory_actor::stateful_pointer<directory_door_state> self,
                   directory_door_options options);

/// Spawns a node's door in the loop of the system's sockets.
directory_actor spawn_directory_door(caf::actor_system& system, directory_door_options options);

} // namespace peercache::actors
