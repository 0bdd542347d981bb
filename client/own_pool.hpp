#pragma once

#include "actors/protocol/gateway.hpp"
#include "client/slot_leases.hpp"
#include "config/node_config.hpp"
#include "discovery/view.hpp"
#include "storage/pool_memory.hpp"
#include "storage/slot_table.hpp"

#include <cstdint>
#include <memory>

namespace peercache::client {

/// The pool of the own host's node, mapped, and the session that lets this process fill slots of
/// it. A node that restarts has another one. Shared by whoever still copies; the mapping outlives
/// the node, and ends on a thread of its own (client/pool_unmapper.hpp).
struct own_pool {
  explicit own_pool(storage::pool_memory mapped)
      : memory(std::move(mapped)), slots(memory.slots()) {}

  storage::pool_memory memory;
  storage::slot_table slots;
  discovery::member node;
  actors::gateway_actor gateway;
  std::uint64_t session = 0;
  std::uint32_t directory_replicas = 2;                  ///< Owners of each key, as the node says.
  config::mirror_mode mirror = config::mirror_mode::off; ///< What the node wants to be mirrored.
  slot_leases leases;
};
using own_pool_ptr = std::shared_ptr<own_pool>;

} // namespace peercache::client
