// How a page_pool adopts the pages of an earlier process, one by one.

#include "storage/page_pool.hpp"

#include "common/assert.hpp"
#include "storage/take_over_step.hpp"

#include <algorithm>

namespace peercache::storage {

void page_pool::claim(const pool_remains& remains) {
  PEERCACHE_ASSERT(stats_.pages == 0 && stats_.filling == 0 && newest_ == generation{});
  newest_ = remains.newest;
  // The first granule of the free extent that reaches to the pool's end.
  std::uint32_t free_from = 0;
  for (const auto& claimed : remains.extents) {
    free_.allocate_at(free_from, claimed.slot.value, claimed.granules);
    free_from = claimed.slot.value + claimed.granules;
    auto& note = pages_[claimed.slot.value];
    note.state = slot_state::filling;
    note.granules_less_one = static_cast<std::uint16_t>(claimed.granules - 1);
    ++stats_.filling;
    if (claimed.as == claimed_extent::use::to_be_zeroed)
      zero_claimed(claimed.slot);
  }
}

/// Puts a claimed slot, whose page is given up or was never complete, in limbo: its bytes are
/// zeroed before anybody gets the slot.
void page_pool::zero_claimed(slot_id slot) {
  --stats_.filling;
  put_in_limbo(slot);
  to_scrub_.push_back({slot});
}

std::vector<resident_page> page_pool::adopt(std::span<const slot_id> slots) {
  std::vector<resident_page> adopted;
  for (const auto slot : slots) {
    PEERCACHE_ASSERT(is(slot, slot_state::filling));
    const auto page = describe(slot);
    PEERCACHE_ASSERT(page.gen.readable() && page.gen <= newest_);
    if (index_.find(page.key) || options_.epochs.is_old(page.key)) {
      give_back(slot);
      continue;
    }
    pages_[slot.value].state = slot_state::readable;
    options_.holds.open(slot);
    index_.insert(page.key, slot);
    host_.insert(page.key, slot);
    --stats_.filling;
    ++stats_.pages;
    ++stats_.adopted;
    stats_.page_bytes += page.length_bytes;
    adopted.push_back(page);
  }
  // The pages are inserted from last to first as in `commit`, so that pages that were filled
  // together lose their tail first.
  for (auto page = adopted.rbegin(); page != adopted.rend(); ++page)
    put_in_order(page->slot, page->key, standing::settled);
  return adopted;
}

void page_pool::give_back(slot_id slot) {
  PEERCACHE_ASSERT(is(slot, slot_state::filling));
  auto& note = pages_[slot.value];
  if (slots_.contents(slot).gen.readable()) {
    slots_.give_up(slot, bytes_after::zeroed);
    reached(take_over_step::page_refused);
    return zero_claimed(slot);
  }
  if (after_eviction() == bytes_after::zeroed)
    return zero_claimed(slot);
  for (std::uint32_t i = 0; i < note.granules(); ++i)
    slots_.end_fill({slot.value + i});
  note.state = slot_state::free;
  free_.free(slot.value, note.granules());
  --stats_.filling;
}

} // namespace peercache::storage
