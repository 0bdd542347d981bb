#pragma once

#include "common/result.hpp"

#include <cstdint>

namespace peercache::cli {

/// The room that this machine has for page pools now. Pools live in /dev/shm and are touched whole.
struct pool_room {
  std::uint64_t shared_memory_bytes = 0; ///< Free in /dev/shm.
  std::uint64_t memory_bytes = 0;        ///< Available without swapping.

  /// This machine's room. A limit that cannot be found out counts as none: the node itself will
  /// say.
  static pool_room of_machine();
};

/// Whether `nodes` pools of `pool_bytes` each are within what pool.size allows, and fit. Errors:
/// `invalid_argument`, with what there is. @pre `nodes` > 0
result<void> check_pools(std::uint64_t nodes, std::uint64_t pool_bytes, const pool_room& room);

} // namespace peercache::cli
