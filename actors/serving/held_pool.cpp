#include "actors/serving/held_pool.hpp"

#include "link/protocol/pool_wire.hpp"
#include "storage/page_holds.hpp"

#include <chrono>
#include <cstddef>

namespace peercache::actors {

std::string held_pool::take(const link::hold_wish& wish, storage::hold_table::time_point now) {
  constexpr std::size_t ahead = 8;
  const storage::holder_tag who{wish.holder};
  const auto count = link::record_count<link::used_page>(wish.pages).value_or(0);
  storage::hold_course course{holds, who, now, now + std::chrono::milliseconds(wish.for_ms)};
  std::string outcomes;
  for (std::size_t i = 0; i < count; ++i) {
    if (i + ahead < count)
      holds.prefetch(link::record_at<link::used_page>(wish.pages, i + ahead).slot);
    const auto page = link::record_at<link::used_page>(wish.pages, i);
    auto outcome = storage::hold_outcome::gone;
    if (wish.for_ms == 0)
      storage::release_page(holds, slots, page.slot, page.gen, who, now);
    else
      outcome = storage::hold_page(course, slots, page.slot, page.gen);
    outcomes += static_cast<char>(outcome);
  }
  return outcomes;
}

} // namespace peercache::actors
