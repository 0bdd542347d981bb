#pragma once

#include "common/result.hpp"

#include <cstdint>

namespace peercache::cli {

/// The room that this machine has for page pools now: pools live in /dev/shm and take all of their
/// memory at start.
struct pool_room {
  std::uint64_t shared_memory_bytes = 0; ///< Bytes that are free in /dev/shm.
  std::uint64_t memory_bytes = 0;        ///< Bytes of memory that are available without swapping.

  /// Finds out this machine's room. An amount that cannot be found out counts as unlimited: the
  /// node itself will say what is missing.
  static pool_room of_machine();
};

/// Checks that `nodes` pools of `pool_bytes` each are within the bounds of pool.size and fit into
/// `room`. Errors: `invalid_argument`, with the room that there is. @pre `nodes` > 0
result<void> check_pools(std::uint64_t nodes, std::uint64_t pool_bytes, const pool_room& room);

} // namespace peercache::cli
