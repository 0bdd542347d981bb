#pragma once

#include "directory/page_location.hpp"
#include "discovery/view.hpp"
#include "link/protocol/pool_wire.hpp"
#include "storage/epoch_table.hpp"
#include "storage/host_index.hpp"
#include "storage/slot_table.hpp"

#include <cstdint>
#include <optional>

namespace peercache::client {

/// The pages of this host's node, as all processes of the host see them in shared memory. Threads:
/// any. Lifetime: the tables' memory outlives every call.
struct host_pages {
  /// Makes the page visible to all readers on this host, though the node does not know of it yet.
  /// False: the node has taken the slot back. @pre the slot is leased to this process, its bytes
  /// are in place, and a store fence (`copy_fence`) stands behind them
  bool make_readable(const link::filled_slot& page) noexcept;

  /// Finds a page of the pool, as a location that the directory could have named; only of this
  /// length, unless it is 0. A page without a checksum is not found: nobody could compare its
  /// bytes.
  std::optional<directory::page_location> find(const page_key& key,
                                               std::uint32_t length_bytes = 0) const noexcept;

  storage::slot_table slots;
  storage::host_index index;
  storage::epoch_table epochs;
  discovery::member node;
};

} // namespace peercache::client
