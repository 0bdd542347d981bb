#include "storage/page_pool.hpp"

#include "common/assert.hpp"
#include "common/checksum.hpp"
#include "common/limits.hpp"

#include <algorithm>
#include <utility>

namespace peercache::storage {
namespace {

/// A reserve evicts this many pages by age before it evicts all pages of an address window.
constexpr std::uint32_t victims_before_window = 8;

} // namespace

page_pool::page_pool(slot_table slots, std::unique_ptr<eviction_policy> policy,
                     const page_pool_options& options, host_index host)
    : slots_(slots), host_(host), options_(options),
      order_(std::move(policy), std::uint64_t{slots.granules()} * limits::granule_bytes),
      free_(slots.granules()), index_(slots),
      pages_(slots.granules(), page_note{slot_state::free, 0}) {
  PEERCACHE_ASSERT(options_.free_low_bytes <= options_.free_high_bytes);
  PEERCACHE_ASSERT(options_.evict_batch_pages_max > 0);
}

// Functions that move slots from one state to another.

bool page_pool::is(slot_id slot, slot_state state) const noexcept {
  return slot.value < pages_.size() && pages_[slot.value].state == state;
}

bool page_pool::has(slot_id slot, generation gen) const noexcept {
  return is(slot, slot_state::readable) && slots_.contents(slot).gen == gen;
}

slot_id page_pool::start_filling(std::uint32_t first, std::uint32_t granules) {
  slot_id slot{first};
  PEERCACHE_ASSERT(is(slot, slot_state::free));
  pages_[first].state = slot_state::filling;
  pages_[first].granules_less_one = static_cast<std::uint16_t>(granules - 1);
  options_.holds.close_anyway(slot, granules, now_);
  slots_.begin_fill(slot, granules);
  ++stats_.filling;
  return slot;
}

commit_outcome page_pool::finish_filling(const fill& page) {
  PEERCACHE_ASSERT(is(page.slot, slot_state::filling));
  const auto checksum =
      page.checksum != 0 ? page.checksum : checksum_of(slots_.bytes(page.slot, page.length_bytes));
  pages_[page.slot.value].state = slot_state::readable;
  auto gen = slots_.publish(page.slot, page.key, page.length_bytes, checksum, newest_);
  newest_ = gen;
  options_.holds.open(page.slot);
  index_.insert(page.key, page.slot);
  host_.insert(page.key, page.slot);
  --stats_.filling;
  ++stats_.pages;
  stats_.page_bytes += page.length_bytes;
  return {page_status::stored, page.slot, gen, checksum, {}};
}

void page_pool::drop_filling(slot_id slot) {
  PEERCACHE_ASSERT(is(slot, slot_state::filling));
  const auto filled = slots_.page_in(slot);
  slots_.drop(slot, after_eviction());
  if (filled)
    host_.erase(filled->key, slot);
  --stats_.filling;
  put_in_limbo(slot);
  if (after_eviction() == bytes_after::zeroed)
    to_scrub_.push_back({slot});
  else
    release(slot);
}

std::uint32_t page_pool::give_up(slot_id slot, bytes_after after, zeroing when) {
  PEERCACHE_ASSERT(is(slot, slot_state::readable));
  auto page = slots_.contents(slot);
  options_.holds.close_anyway(slot, pages_[slot.value].granules(), now_);
  slots_.give_up(slot, after);
  index_.erase(page.key, slot);
  host_.erase(page.key, slot);
  --stats_.pages;
  stats_.page_bytes -= page.length_bytes;
  put_in_limbo(slot);
  // `slots_.give_up` has made the generation odd before this look at the pins. So when the slot has
  // no pin, no reader takes its bytes as right from here on, and they may be overwritten.
  const bool read = slots_.pins(slot) != 0;
  if (after == bytes_after::zeroed && (read || when == zeroing::later)) {
    to_scrub_.push_back({slot});
    return no_extent;
  }
  if (read) {
    limbo_.push_back(slot);
    return no_extent;
  }
  return after == bytes_after::zeroed ? zero_and_free({slot}) : release(slot);
}

void page_pool::put_in_limbo(slot_id slot) {
  pages_[slot.value].state = slot_state::limbo;
  limbo_granules_ += pages_[slot.value].granules();
  ++stats_.limbo;
}

std::uint32_t page_pool::release(slot_id slot) {
  PEERCACHE_ASSERT(is(slot, slot_state::limbo));
  auto granules = pages_[slot.value].granules();
  pages_[slot.value].state = slot_state::free;
  limbo_granules_ -= granules;
  --stats_.limbo;
  return free_.free(slot.value, granules);
}

// Functions that reserve slots and commit pages.

result<slot_id> page_pool::reserve(std::uint32_t length_bytes, std::vector<evicted>& victims,
                                   spare_mode spare) {
  if (length_bytes == 0 || length_bytes > limits::page_bytes_max)
    return {errc::invalid_argument, "a page has 1 byte to 64 MiB"};
  auto granules = limits::granules_of(length_bytes);
  if (granules <= pages_.size()) {
    if (auto first = free_.allocate(granules))
      return start_filling(*first, granules);
    if (auto slot = place(granules, victims, spare))
      return *slot;
  }
  ++stats_.reserves_refused;
  return {errc::out_of_memory, "the pool has no room that is neither pinned nor being filled"};
}

std::optional<slot_id> page_pool::place(std::uint32_t granules, std::vector<evicted>& victims,
                                        spare_mode spare) {
  const bool spares = spare == spare_mode::only_copies && kept_ != nullptr;
  reclaim();
  // Scrubs at most as many bytes as the filler of the page will write, so that a reserve does not
  // take much longer.
  scrub(std::uint64_t{granules} * limits::granule_bytes);
  std::optional<window> best;
  if (auto first = free_.allocate(granules))
    return start_filling(*first, granules);
  for (std::uint32_t i = 0; i < victims_before_window; ++i) {
    auto victim = spares ? next_victim_kept_elsewhere() : next_victim();
    if (!victim)
      break;
    evict(*victim, victims, zeroing::at_once);
    if (auto first = free_.allocate(granules))
      return start_filling(*first, granules);
    // The neighbours of a cold page are mostly cold as well, so the window around each victim is
    // measured; the window whose youngest page is oldest is cleared in the end.
    auto around = measure(victim->value - victim->value % granules, granules);
    if (around && (!best || around->newest < best->newest))
      best = around;
  }
  if (best)
    if (auto slot = clear(*best, granules, victims))
      return slot;
  return clear_any(granules, victims);
}

void page_pool::commit(std::span<const fill> fills, std::span<commit_outcome> outcomes,
                       fill_origin from) {
  PEERCACHE_ASSERT(fills.size() == outcomes.size());
  // Pages are inserted from last to first, so that the policy sees the chain's head as the newest.
  // Pages that were in the pool already are touched after that, because they are the front of the
  // chain.
  const auto as = from == fill_origin::copy ? standing::on_probation : standing::settled;
  const auto in_order = [&](std::size_t begin, std::size_t end) {
    for (auto i = end; i-- > begin;)
      if (outcomes[i].status == page_status::stored)
        put_in_order(fills[i].slot, fills[i].key, as);
    for (auto i = end; i-- > begin;)
      if (outcomes[i].status == page_status::duplicate)
        order_.touch(outcomes[i].slot);
  };
  std::size_t done = 0;
  for (std::size_t i = 0; i < fills.size(); ++i) {
    const auto resident = index_.find(fills[i].key);
    const bool replaces = resident && from == fill_origin::producer &&
                          slots_.contents(*resident).length_bytes != fills[i].length_bytes;
    if (replaces) {
      // The page that gives way may be an earlier page of this commit, and a page can give way only
      // from the policy's order. So the pages of this commit before fill `i` are put in order now.
      in_order(done, i);
      done = i;
    }
    outcomes[i] = commit_one(fills[i], resident, replaces);
  }
  in_order(done, fills.size());
}

std::optional<page_status> page_pool::refusal_of(const fill& page) const {
  if (page.length_bytes == 0 || page.length_bytes > limits::page_bytes_max ||
      limits::granules_of(page.length_bytes) != pages_[page.slot.value].granules())
    return page_status::bad_size;
  if (!slots_.was_filled(page.slot, page.key, page.length_bytes, page.checksum))
    return page_status::refused;
  if (options_.epochs.is_old(page.key))
    return page_status::stale;
  return std::nullopt;
}

commit_outcome page_pool::commit_one(const fill& page, const std::optional<slot_id>& resident,
                                     bool replaces) {
  if (!is(page.slot, slot_state::filling))
    return {.status = page_status::refused, .slot = page.slot};
  if (const auto why_not = refusal_of(page)) {
    drop_filling(page.slot);
    ++stats_.abandoned;
    return {.status = *why_not, .slot = page.slot};
  }
  std::optional<evicted> replaced;
  if (replaces) {
    replaced = remove(page.key);
  } else if (resident) {
    drop_filling(page.slot);
    ++stats_.duplicates;
    return {
        .status = page_status::duplicate, .slot = *resident, .gen = slots_.contents(*resident).gen};
  }
  ++stats_.stored;
  auto outcome = finish_filling(page);
  outcome.replaced = replaced;
  return outcome;
}

bool page_pool::abandon(slot_id slot) {
  if (!is(slot, slot_state::filling))
    return false;
  drop_filling(slot);
  ++stats_.abandoned;
  return true;
}

// Functions that find, remove and touch pages.

resident_page page_pool::describe(slot_id slot) const {
  auto page = slots_.contents(slot);
  return {page.key, slot, page.gen, page.length_bytes, page.checksum};
}

std::optional<resident_page> page_pool::find(const page_key& key) const {
  auto slot = index_.find(key);
  return slot ? std::optional(describe(*slot)) : std::nullopt;
}

std::optional<evicted> page_pool::remove(const page_key& key, bytes_after after) {
  auto page = find(key);
  if (!page)
    return std::nullopt;
  order_.erase(page->slot);
  give_up(page->slot, after == bytes_after::left ? after_eviction() : after);
  ++stats_.removed;
  return evicted{page->key, page->slot, page->gen, page->length_bytes, page->checksum};
}

bool page_pool::count_use(slot_id slot, generation gen) noexcept {
  if (!has(slot, gen))
    return false;
  slots_.count_use(slot);
  return true;
}

bool page_pool::touch(const page_key& key) {
  auto slot = index_.find(key);
  if (slot)
    order_.touch(*slot);
  return slot.has_value();
}

// Functions for statistics.

std::uint64_t page_pool::capacity_bytes() const noexcept {
  return pages_.size() * std::uint64_t{limits::granule_bytes};
}

page_pool_stats page_pool::stats() const {
  auto now = stats_;
  now.capacity_bytes = capacity_bytes();
  now.free_bytes = std::uint64_t{free_.free_granules()} * limits::granule_bytes;
  now.used_bytes = now.capacity_bytes - now.free_bytes;
  now.free_extents = free_.extents();
  now.index_bytes = index_.bytes();
  return now;
}

} // namespace peercache::storage
