#pragma once

#include "actors/link_names.hpp"
#include "link/protocol/pool.hpp"

#include <cstdint>
#include <vector>

// How a pool gives up pages that are older than the last clear of their space.
namespace peercache::actors {

struct pool_state;
using pool_pointer = pool_actor::stateful_pointer<pool_state>;

/// One walk through the pool to give up old pages, and the callers that wait for its end.
struct pool_clear {
  bool walking = false;
  std::uint64_t pages = 0;        ///< Cleared pages given up in the current walk.
  std::uint64_t pages_in_all = 0; ///< Cleared pages given up since the node's start.
  /// Callers that wait for the end of this walk.
  std::vector<caf::typed_response_promise<std::uint64_t>> waiting;
  /// Callers that wait for the end of the next walk: an epoch may have risen since this walk began.
  std::vector<caf::typed_response_promise<std::uint64_t>> next;
};

/// Gives up all pages that are older than their space's epoch at the moment of the call, and
/// answers when none of them is left in the pool. Readers of such pages miss, and their records are
/// withdrawn; the disk is told to forget its old pages.
caf::result<std::uint64_t> give_up_old(pool_pointer self);

/// Gives up the old pages of the next piece of the pool, from granule `from` on.
void go_on_giving_up(pool_pointer self, std::uint32_t from);

} // namespace peercache::actors
