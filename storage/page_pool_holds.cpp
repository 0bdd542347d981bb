// How pages of a page_pool are held against eviction.

#include "storage/page_pool.hpp"

namespace peercache::storage {

void page_pool::tell_time(hold_table::time_point now) {
  now_ = now;
  stats_.holds_expired += options_.holds.sweep(now).pages;
}

hold_outcome page_pool::hold(slot_id slot, generation gen, holder_tag who,
                             std::chrono::milliseconds duration) {
  if (!has(slot, gen))
    return hold_outcome::gone;
  return options_.holds.hold(slot, pages_[slot.value].granules(), who, now_, now_ + duration);
}

bool page_pool::release_hold(slot_id slot, generation gen, holder_tag who) {
  return has(slot, gen) && options_.holds.release(slot, pages_[slot.value].granules(), who, now_);
}

} // namespace peercache::storage
