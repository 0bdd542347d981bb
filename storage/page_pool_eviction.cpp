// How a page_pool chooses the page that is evicted next, and keeps the order of its pages.

#include "storage/page_pool.hpp"

#include "common/assert.hpp"
#include "common/limits.hpp"

#include <algorithm>
#include <vector>

namespace peercache::storage {
namespace {

/// A reserve spares at most this many victims that are kept nowhere else, to find one that is kept
/// elsewhere.
constexpr std::uint32_t spared_max = 16;
/// At most this many held pages are passed over for each victim; when all of them are held, the
/// pool has no victim for now.
constexpr std::uint32_t held_passes_max = 4096;
/// In the search for one victim, at most this many pages are kept because somebody reads them or
/// has read them since the last look at them.
constexpr std::uint32_t second_chances_max = 16;

} // namespace

void page_pool::put_in_order(slot_id slot, const page_key& key, standing as) {
  const auto bytes = pages_[slot.value].granules() * limits::granule_bytes;
  if (as == standing::on_probation)
    order_.insert_promoted(slot, key, bytes);
  else
    order_.insert(slot, key, bytes);
}

std::optional<slot_id> page_pool::next_victim() {
  for (std::uint32_t i = 0, passes = 0; passes <= held_passes_max;) {
    const auto victim = order_.victim([this](slot_id unread, slot_id promoted) {
      return kept_ && kept_(unread) && slots_.contents(unread).gen < slots_.contents(promoted).gen;
    });
    if (!victim)
      return std::nullopt;
    const auto slot = victim->slot;
    PEERCACHE_ASSERT(is(slot, slot_state::readable));
    auto uses = slots_.take_uses(slot);
    stats_.uses += uses;
    // A pin belongs to a read that goes on, so giving the page up would free nothing yet.
    const bool in_use = uses >= victim->reads_to_stay;
    const bool stays = i < second_chances_max && (in_use || slots_.pins(slot) != 0);
    const bool held = options_.holds.is_held(slot, now_);
    if (!held && !stays && options_.holds.close(slot, now_))
      return slot;
    put_in_order(slot, slots_.contents(slot).key,
                 victim->promoted && !in_use && !held ? standing::on_probation : standing::settled);
    if (in_use || held || !victim->promoted)
      order_.touch(slot);
    if (stays && !held)
      ++i;
    else
      ++passes;
  }
  return std::nullopt;
}

/// The next victim that is kept elsewhere; the very next victim when none of the first few is kept
/// elsewhere. All other pages that were looked at go back into the order as new pages.
std::optional<slot_id> page_pool::next_victim_kept_elsewhere() {
  std::vector<slot_id> spared;
  auto chosen = next_victim();
  while (chosen && !kept_(*chosen) && spared.size() < spared_max) {
    spared.push_back(*chosen);
    chosen = next_victim();
  }
  if (!spared.empty() && (!chosen || !kept_(*chosen))) {
    if (chosen)
      spared.push_back(*chosen);
    chosen = spared.front();
    spared.erase(spared.begin());
  }
  for (const auto slot : spared) {
    options_.holds.open(slot);
    put_in_order(slot, slots_.contents(slot).key, standing::settled);
  }
  return chosen;
}

void page_pool::evict(slot_id victim, std::vector<evicted>& victims, zeroing when) {
  auto page = describe(victim);
  victims.push_back({page.key, page.slot, page.gen, page.length_bytes, page.checksum});
  ++stats_.evictions;
  stats_.evicted_bytes += page.length_bytes;
  give_up(victim, after_eviction(), when);
}

bool page_pool::evict_ahead(std::vector<evicted>& victims, const last_look& look,
                            std::uint64_t free_wanted_bytes) {
  reclaim();
  const auto low = std::max(options_.free_low_bytes, free_wanted_bytes);
  const auto high = std::max(options_.free_high_bytes, free_wanted_bytes);
  // Bytes in limbo become free without another victim, so they count as free here.
  auto coming_bytes = [this] {
    return (free_.free_granules() + limbo_granules_) * limits::granule_bytes;
  };
  if (coming_bytes() >= low)
    return false;
  for (std::uint32_t i = 0; i < options_.evict_batch_pages_max; ++i) {
    if (coming_bytes() >= high)
      return false;
    auto victim = next_victim();
    if (!victim)
      return false;
    if (look)
      look(describe(*victim));
    evict(*victim, victims, zeroing::later);
  }
  return true;
}

void page_pool::reclaim() {
  std::erase_if(limbo_, [this](slot_id slot) {
    if (slots_.pins(slot) != 0)
      return false;
    release(slot);
    return true;
  });
}

void page_pool::fold_uses(std::uint32_t pages_max, page_survey* survey) {
  // The scan goes round the pool at most once, and does not look long at granules where no page
  // begins.
  auto steps_left = std::min<std::uint64_t>(pages_.size(), std::uint64_t{pages_max} * 16);
  for (std::uint32_t seen = 0; seen < pages_max && steps_left > 0; --steps_left) {
    if (fold_cursor_ == 0) {
      fold_cursor_ = static_cast<std::uint32_t>(pages_.size());
      if (survey != nullptr)
        survey->begin_walk();
    }
    --fold_cursor_;
    const slot_id slot{fold_cursor_};
    if (pages_[fold_cursor_].state != slot_state::readable) // Most granules, so no call of `is`.
      continue;
    ++seen;
    const auto uses = slots_.take_uses(slot);
    if (survey != nullptr) {
      const auto page = slots_.contents(slot);
      survey->saw(page.key, page.length_bytes, uses);
    }
    if (uses > 0) {
      stats_.uses += uses;
      order_.touch(slot, uses);
    }
  }
}

} // namespace peercache::storage
