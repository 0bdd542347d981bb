#pragma once

#include "actors/link_names.hpp"
#include "link/protocol/pool.hpp"

#include <cstdint>
#include <vector>

// How a pool gives up the pages of spaces that were cleared since they were set.
namespace peercache::actors {

struct pool_state;
using pool_pointer = pool_actor::stateful_pointer<pool_state>;

/// One walk through the pool, and who waits for its end.
struct pool_clear {
  bool walking = false;
  std::uint64_t pages = 0;                                         ///< Given up in this walk,
  std::uint64_t pages_in_all = 0;                                  ///< and since the start.
  std::vector<caf::typed_response_promise<std::uint64_t>> waiting; ///< For the end of this walk.
  /// For the end of the next: an epoch may have risen since this one began.
  std::vector<caf::typed_response_promise<std::uint64_t>> next;
};

/// From the answer on no page of the pool is older than its space's epoch of the moment of the
/// call. Readers of such pages miss, and their records are withdrawn; the disk is told to forget
/// its own.
caf::result<std::uint64_t> give_up_old(pool_pointer self);

/// The next piece of that.
void go_on_giving_up(pool_pointer self, std::uint32_t from);

} // namespace peercache::actors
