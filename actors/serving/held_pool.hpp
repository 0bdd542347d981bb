#pragma once

#include "link/member_question.hpp"
#include "storage/hold_table.hpp"
#include "storage/slot_table.hpp"

#include <string>

namespace peercache::actors {

/// Holds pages of this node's pool for clients of other hosts. Threads: any. Lifetime: the pool's
/// memory outlives this object.
struct held_pool {
  storage::slot_table slots;
  storage::hold_table holds;

  /// Keeps the pages of the wish from eviction; a wish without a duration ends the holds that only
  /// its client has. Returns one hold_outcome byte for each page.
  std::string take(const link::hold_wish& wish, storage::hold_table::time_point now);
};

} // namespace peercache::actors
