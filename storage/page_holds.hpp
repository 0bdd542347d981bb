#pragma once

#include "common/ids.hpp"
#include "storage/hold_table.hpp"
#include "storage/slot_table.hpp"

#include <cstdint>

namespace peercache::storage {

/// Holds and releases of pages by their generation, over the words of slots. Threads and processes:
/// as `hold_table` says. Errors: `gone` where the slot has another page by now.

/// Keeps the page of generation `gen` from eviction. @param length_bytes The page's length.
hold_outcome hold_page(hold_course& by, const slot_table& slots, slot_id slot, generation gen,
                       std::uint32_t length_bytes) noexcept;
/// Keeps the page of generation `gen` from eviction, for a caller that does not know the page's
/// length. @param slot, gen any numbers, even of a slot that does not exist
hold_outcome hold_page(hold_course& by, const slot_table& slots, slot_id slot,
                       generation gen) noexcept;
/// Ends the hold of the page, if only `who` has it. @param slot, gen any numbers, even of a slot
/// that does not exist
bool release_page(hold_table& table, const slot_table& slots, slot_id slot, generation gen,
                  holder_tag who, hold_table::time_point now) noexcept;

} // namespace peercache::storage
