#include "client/pool/host_pages.hpp"

#include "common/assert.hpp"

namespace peercache::client {

bool host_pages::make_readable(const link::filled_slot& page) noexcept {
  PEERCACHE_ASSERT(slots.in_range(page.slot, page.length_bytes));
  if (!slots.fill(page.slot, page.key, page.length_bytes, page.checksum))
    return false;
  // When the index has no room, readers of this host find the page through the directory a moment
  // later.
  index.insert(page.key, page.slot);
  return true;
}

std::optional<directory::page_location>
host_pages::find(const page_key& key, std::uint32_t length_bytes) const noexcept {
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

} // namespace peercache::client
