#include "client/own_pool.hpp"

#include "common/limits.hpp"

namespace peercache::client {

void own_pool::end_hold(slot_id slot, std::uint32_t length_bytes, storage::holder_tag who,
                        storage::hold_table::time_point now) noexcept {
  holds.release(slot, limits::granules_of(length_bytes), who, now);
}

} // namespace peercache::client
