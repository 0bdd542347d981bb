#pragma once

#include "client/pool/host_pages.hpp"
#include "client/pool/slot_leases.hpp"
#include "common/limits.hpp"
#include "config/node_config.hpp"
#include "directory/page_location.hpp"
#include "directory/shard_object.hpp"
#include "discovery/view.hpp"
#include "link/protocol/gateway.hpp"
#include "link/protocol/pool_wire.hpp"
#include "storage/hold_table.hpp"
#include "storage/host_index.hpp"
#include "storage/pool_memory.hpp"
#include "storage/slot_table.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

namespace peercache::client {

/// The mapped pool of this host's node, and the session that lets this process fill slots of it. A
/// restarted node has another pool. Shared by all threads that still copy; the mapping outlives the
/// node, and ends on a thread of its own (client/pool/pool_unmapper.hpp).
struct own_pool : host_pages {
  explicit own_pool(storage::pool_memory mapped)
      : host_pages{mapped.slots(), mapped.index(), mapped.epochs(), {}}, memory(std::move(mapped)),
        holds(memory.holds()) {}

  /// The bytes of a slot of this session, mapped. @pre slots.in_range(slot, length_bytes)
  std::span<std::byte> bytes_to_fill(slot_id slot, std::uint32_t length_bytes) const noexcept;

  /// Ends the hold of the slot's page, if `who` alone has it.
  void end_hold(slot_id slot, std::uint32_t length_bytes, storage::holder_tag who,
                storage::hold_table::time_point now) noexcept;

  storage::pool_memory memory;
  storage::hold_table holds;
  link::gateway_actor gateway;
  std::uint64_t session = 0;
  /// The node's shard of the directory; null: it cannot be mapped.
  std::unique_ptr<const directory::attached_shard> shard;
  /// Number of owners of each key, as the node says.
  std::uint32_t directory_replicas = limits::directory_replicas_default;
  /// Which pages the node wants to be mirrored.
  config::mirror_mode mirror = config::mirror_mode::off;
  slot_leases leases;
};
using own_pool_ptr = std::shared_ptr<own_pool>;

/// Calls `visit(i, location)` for each of `count` keys, in order; the location is empty where this
/// host has no such page in memory, or no pool. The index entries of the next keys are prefetched.
/// @param key_at, length_at return key and length of page i
template <class KeyAt, class LengthAt, class Visitor>
void find_each(const own_pool_ptr& pool, std::size_t count, KeyAt&& key_at, LengthAt&& length_at,
               Visitor&& visit) {
  constexpr std::size_t ahead = 8;
  for (std::size_t i = 0; pool && i < std::min(ahead, count); ++i)
    pool->index.prefetch(key_at(i));
  for (std::size_t i = 0; i < count; ++i) {
    if (pool && i + ahead < count)
      pool->index.prefetch(key_at(i + ahead));
    visit(i, pool ? pool->find(key_at(i), length_at(i)) : std::nullopt);
  }
}

} // namespace peercache::client
