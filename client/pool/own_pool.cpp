#include "client/pool/own_pool.hpp"

#include "common/limits.hpp"
#include "storage/fault_around.hpp"

namespace peercache::client {

std::span<std::byte> own_pool::bytes_to_fill(slot_id slot,
                                             std::uint32_t length_bytes) const noexcept {
  const auto bytes = slots.bytes_to_fill(slot, length_bytes);
  storage::map_around(bytes);
  return bytes;
}

void own_pool::end_hold(slot_id slot, std::uint32_t length_bytes, storage::holder_tag who,
                        storage::hold_table::time_point now) noexcept {
  holds.release(slot, limits::granules_of(length_bytes), who, now);
}

} // namespace peercache::client
