#include "client/own_pool.hpp"

#include "common/assert.hpp"
#include "common/limits.hpp"

namespace peercache::client {

bool own_pool::make_readable(const link::filled_slot& page) noexcept {
  PEERCACHE_ASSERT(slots.in_range(page.slot, page.length_bytes));
  if (!slots.fill(page.slot, page.key, page.length_bytes, page.checksum))
    return false;
  // When the index has no room, readers of this host find the page through the directory a moment
  // later.
  index.insert(page.key, page.slot);
  return true;
}

std::optional<directory::page_location> own_pool::find(const page_key& key,
                                                       std::uint32_t length_bytes) const noexcept {
  // A page that was filled before a clear and not committed yet is not found.
  if (epochs.is_old(key))
    return std::nullopt;
  const auto found = index.find(key, length_bytes);
  if (!found || found->contents.checksum == 0)
    return std::nullopt;
  directory::page_location location;
  location.node = node.id;
  location.holder = node.inc;
  location.gen = found->contents.gen;
  location.checksum = found->contents.checksum;
  location.slot = found->slot;
  location.length_bytes = found->contents.length_bytes;
  return location;
}

void own_pool::end_hold(slot_id slot, std::uint32_t length_bytes, storage::holder_tag who,
                        storage::hold_table::time_point now) noexcept {
  holds.release(slot, limits::granules_of(length_bytes), who, now);
}

} // namespace peercache::client
