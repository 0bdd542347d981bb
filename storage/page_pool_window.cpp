// How a page_pool wins scattered space back: all readable pages of one aligned address window go at
// once, and with them the slots in limbo that nobody reads. Windows of n granules start at
// multiples of n, so that pages of a new size come to lie on a grid without gaps.

#include "storage/page_pool.hpp"

#include "common/assert.hpp"
#include "common/limits.hpp"

#include <algorithm>

namespace peercache::storage {
namespace {

/// Most granules that one `clear_any` looks at, which takes some milliseconds.
constexpr std::uint64_t walk_granules_max = 1u << 22;

/// After this many measured windows one of them is cleared: the one whose youngest page is oldest.
constexpr std::uint64_t windows_compared = 16;

} // namespace

std::uint32_t page_pool::page_covering(std::uint32_t granule) const {
  auto lowest = granule - std::min(granule, limits::granules_per_page_max - 1);
  for (auto at = granule;; --at) {
    if (pages_[at].state != slot_state::free)
      return at + pages_[at].granules() > granule ? at : granule;
    if (at == lowest)
      return granule;
  }
}

std::optional<page_pool::window> page_pool::measure(std::uint32_t first,
                                                    std::uint32_t granules) const {
  auto end = std::uint64_t{first} + granules;
  if (end > pages_.size())
    return std::nullopt;
  window found{.first = first};
  for (std::uint64_t at = page_covering(first); at < end;) {
    auto here = pages_[at];
    slot_id slot{static_cast<std::uint32_t>(at)};
    if (here.state == slot_state::free) {
      at += std::max(1u, free_.extent_at(slot.value));
      continue;
    }
    if (here.state == slot_state::filling || slots_.pins(slot) != 0)
      return std::nullopt;
    if (here.state == slot_state::limbo) {
      at += here.granules();
      continue;
    }
    if (options_.holds.is_held(slot, now_))
      return std::nullopt;
    found.newest = std::max(found.newest, slots_.contents(slot).gen);
    at += here.granules();
  }
  return found;
}

std::optional<slot_id> page_pool::clear(const window& chosen, std::uint32_t granules,
                                        std::vector<evicted>& victims) {
  auto end = std::uint64_t{chosen.first} + granules;
  auto extent = free_limbo(chosen.first, end);
  for (std::uint64_t at = page_covering(chosen.first); at < end;) {
    slot_id slot{static_cast<std::uint32_t>(at)};
    auto here = pages_[at];
    if (here.state != slot_state::readable) {
      at += here.state == slot_state::free ? std::max(1u, free_.extent_at(slot.value))
                                           : here.granules();
      continue;
    }
    at += here.granules();
    if (!options_.holds.close(slot, now_))
      continue; // The page was held after the window was measured.
    auto page = describe(slot);
    victims.push_back({page.key, page.slot, page.gen, page.length_bytes, page.checksum});
    ++stats_.evictions;
    ++stats_.window_evictions;
    stats_.evicted_bytes += page.length_bytes;
    order_.erase(slot);
    extent = give_up(slot, after_eviction(), zeroing::at_once);
  }
  // A reader may have pinned or held a page after the window was measured. Then the window is not
  // free as a whole, and the caller gets no slot.
  if (extent == no_extent || extent > chosen.first || extent + free_.extent_at(extent) < end)
    return std::nullopt;
  free_.allocate_at(extent, chosen.first, granules);
  return start_filling(chosen.first, granules);
}

std::optional<slot_id> page_pool::clear_any(std::uint32_t granules, std::vector<evicted>& victims) {
  if (stats_.pages == 0 && stats_.limbo == 0)
    return std::nullopt;
  auto windows = static_cast<std::uint32_t>(pages_.size() / granules);
  // For each window `page_covering` may look at as many granules as a page can have, so these
  // granules count as work as well.
  auto tries = std::min<std::uint64_t>(windows, walk_granules_max /
                                                    (granules + limits::granules_per_page_max));
  std::optional<window> best;
  for (std::uint64_t i = 0, measured = 0; i < tries; ++i) {
    window_cursor_ = (window_cursor_ + 1) % windows;
    auto found = measure(window_cursor_ * granules, granules);
    if (!found)
      continue;
    if (!best || found->newest < best->newest)
      best = found;
    // Chance decides which pages lie in a single window, so several windows are measured before the
    // oldest of them is cleared.
    if (++measured % windows_compared != 0)
      continue;
    if (auto slot = clear(*best, granules, victims))
      return slot;
    best.reset();
  }
  return best ? clear(*best, granules, victims) : std::nullopt;
}

} // namespace peercache::storage
