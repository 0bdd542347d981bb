#include "storage/page_holds.hpp"

#include "common/limits.hpp"

namespace peercache::storage {

hold_outcome hold_page(hold_course& by, const slot_table& slots, slot_id slot, generation gen,
                       std::uint32_t length_bytes) noexcept {
  const auto granules = limits::granules_of(length_bytes);
  const auto outcome = by.hold(slot, granules);
  if (outcome != hold_outcome::held || slots.still_readable(slot, gen))
    return outcome;
  by.release(slot, granules); // The slot had got another page before it was held.
  return hold_outcome::gone;
}

hold_outcome hold_page(hold_course& by, const slot_table& slots, slot_id slot,
                       generation gen) noexcept {
  const auto page = slots.page_in(slot);
  if (!page || page->gen != gen)
    return hold_outcome::gone;
  return hold_page(by, slots, slot, gen, page->length_bytes);
}

bool release_page(hold_table& table, const slot_table& slots, slot_id slot, generation gen,
                  holder_tag who, hold_table::time_point now) noexcept {
  const auto page = slots.page_in(slot);
  return page && page->gen == gen &&
         table.release(slot, limits::granules_of(page->length_bytes), who, now);
}

} // namespace peercache::storage
