#include "storage/hold_table.hpp"

#include "common/assert.hpp"

#include <algorithm>
#include <utility>

namespace peercache::storage {
namespace {

using std::memory_order_acq_rel;
using std::memory_order_acquire;
using std::memory_order_relaxed;
using std::memory_order_release;
using word_type = std::uint64_t;
using time_point = hold_table::time_point;

constexpr word_type open_word = 0;
constexpr word_type closed_word = ~word_type{0};
constexpr word_type shared_bit = 1;
constexpr unsigned holder_shift = 1;
constexpr word_type holder_mask = (word_type{1} << 23) - 1;
constexpr unsigned end_shift = 24;

constexpr std::uint64_t bucket_ms = 512;
constexpr unsigned pages_shift = 40;
constexpr std::uint64_t granules_mask = (std::uint64_t{1} << pages_shift) - 1;
constexpr std::uint64_t one_page = std::uint64_t{1} << pages_shift;
/// A word whose hold ends later than `duration_max` and this many ms from now was not made by this
/// host's clock.
constexpr std::uint64_t slack_ms = 1000;
constexpr std::uint64_t longest_ms = hold_table::duration_max.count() + slack_ms;
/// The number of buckets, from the present one on, in which a hold that is not over may end.
constexpr std::uint64_t live_buckets = longest_ms / bucket_ms + 2;
static_assert(live_buckets < hold_block::bucket_count / 2 + hold_block::bucket_count / 4);

std::uint64_t floor_ms(time_point at) {
  const auto ms = std::chrono::floor<std::chrono::milliseconds>(at.time_since_epoch()).count();
  return static_cast<std::uint64_t>(std::max<decltype(ms)>(ms, 0));
}

std::size_t bucket_of(std::uint64_t end_ms) {
  return end_ms / bucket_ms % hold_block::bucket_count;
}

std::uint64_t end_of(word_type word) {
  return word >> end_shift;
}

/// Whether the word keeps its page now. A word that would keep the page for longer than any hold
/// may last comes from another clock and keeps nothing.
bool is_live(word_type word, std::uint64_t now_ms) {
  return word != closed_word && end_of(word) > now_ms && end_of(word) - now_ms <= longest_ms;
}

word_type word_of(std::uint64_t end_ms, holder_tag who) {
  return end_ms << end_shift | (who.value & holder_mask) << holder_shift;
}

/// The value that a hold until `end_ms` gives to a word that was `before`.
word_type next_word(word_type before, bool live, std::uint64_t end_ms, holder_tag who) {
  if (!live)
    return word_of(end_ms, who);
  const auto holder = before & (holder_mask << holder_shift);
  return std::max(end_ms, end_of(before)) << end_shift | holder | shared_bit;
}

} // namespace

void hold_table::limit(std::uint64_t granules_max) noexcept {
  if (block_ == nullptr)
    return;
  for (auto& bucket : block_->buckets)
    bucket.store(0, memory_order_relaxed);
  granules_max_->store(granules_max, memory_order_relaxed);
}

void hold_table::open(slot_id slot) noexcept {
  if (block_ != nullptr)
    words_[slot.value].store(open_word, memory_order_release);
}

bool hold_table::close(slot_id slot, time_point now) noexcept {
  if (block_ == nullptr)
    return true;
  auto& word = words_[slot.value];
  auto before = word.load(memory_order_relaxed);
  do {
    if (is_live(before, floor_ms(now)))
      return false;
  } while (!word.compare_exchange_weak(before, closed_word, memory_order_acq_rel));
  // A hold that is over stays in its bucket until `sweep`, which counts it.
  return true;
}

void hold_table::close_anyway(slot_id slot, std::uint32_t granules, time_point now) noexcept {
  if (block_ == nullptr)
    return;
  auto& word = words_[slot.value];
  if (word.load(memory_order_relaxed) == closed_word)
    return;
  const auto before = word.exchange(closed_word, memory_order_acq_rel);
  if (is_live(before, floor_ms(now)))
    uncount(end_of(before), {1, granules});
}

hold_table::sums hold_table::sweep(time_point now) noexcept {
  sums over;
  if (block_ == nullptr)
    return over;
  const auto first_live = floor_ms(now) / bucket_ms;
  for (auto at = first_live + live_buckets; at < first_live + hold_block::bucket_count; ++at) {
    auto& bucket = block_->buckets[at % hold_block::bucket_count];
    if (bucket.load(memory_order_relaxed) == 0)
      continue;
    const auto had = bucket.exchange(0, memory_order_relaxed);
    over.pages += had >> pages_shift;
    over.granules += had & granules_mask;
  }
  return over;
}

bool hold_table::is_held(slot_id slot, time_point now) const noexcept {
  return block_ != nullptr && is_live(words_[slot.value].load(memory_order_acquire), floor_ms(now));
}

hold_outcome hold_table::hold(slot_id slot, std::uint32_t granules, holder_tag who, time_point now,
                              time_point until) noexcept {
  return hold_course{*this, who, now, until}.hold(slot, granules);
}

bool hold_table::release(slot_id slot, std::uint32_t granules, holder_tag who,
                         time_point now) noexcept {
  if (block_ == nullptr || slot.value >= words_.size())
    return false;
  auto& word = words_[slot.value];
  auto before = word.load(memory_order_relaxed);
  const bool mine = is_live(before, floor_ms(now)) && before == word_of(end_of(before), who);
  if (!mine || !word.compare_exchange_strong(before, open_word, memory_order_acq_rel))
    return false;
  uncount(end_of(before), {1, granules});
  return true;
}

void hold_table::prefetch(slot_id slot) const noexcept {
  if (slot.value < words_.size())
    __builtin_prefetch(&words_[slot.value], 1);
}

hold_table::sums hold_table::held(time_point now) const noexcept {
  sums now_held;
  if (block_ == nullptr)
    return now_held;
  const auto first = floor_ms(now) / bucket_ms;
  for (auto at = first; at < first + live_buckets; ++at) {
    const auto has = block_->buckets[at % hold_block::bucket_count].load(memory_order_relaxed);
    now_held.pages += has >> pages_shift;
    now_held.granules += has & granules_mask;
  }
  return now_held;
}

std::uint64_t hold_table::granules_max() const noexcept {
  return block_ == nullptr ? 0 : granules_max_->load(memory_order_relaxed);
}

std::uint64_t hold_table::taken(std::uint64_t now_ms) const noexcept {
  const auto first = now_ms / bucket_ms;
  std::uint64_t sum = 0;
  for (auto at = first; at < first + live_buckets; ++at)
    sum +=
        block_->buckets[at % hold_block::bucket_count].load(memory_order_relaxed) & granules_mask;
  return sum;
}

void hold_table::count(std::uint64_t end_ms, const sums& pages) noexcept {
  block_->buckets[bucket_of(end_ms)].fetch_add(pages.pages * one_page + pages.granules,
                                               memory_order_relaxed);
}

void hold_table::uncount(std::uint64_t end_ms, const sums& pages) noexcept {
  auto& bucket = block_->buckets[bucket_of(end_ms)];
  auto before = bucket.load(memory_order_relaxed);
  // `sweep` may have emptied the bucket of a hold that is over by now.
  while (before >> pages_shift >= pages.pages && (before & granules_mask) >= pages.granules)
    if (bucket.compare_exchange_weak(before, before - pages.pages * one_page - pages.granules,
                                     memory_order_relaxed))
      return;
}

hold_course::hold_course(const hold_table& table, holder_tag who, time_point now,
                         time_point until) noexcept
    : table_(table), who_(who), now_(now), now_ms_(floor_ms(now)),
      end_ms_(floor_ms(std::min(until, now + hold_table::duration_max)) + 1) {}

hold_outcome hold_course::hold(slot_id slot, std::uint32_t granules) noexcept {
  if (table_.block_ == nullptr)
    return hold_outcome::refused;
  if (slot.value >= table_.words_.size())
    return hold_outcome::gone;
  auto& word = table_.words_[slot.value];
  auto before = word.load(memory_order_acquire);
  for (;;) {
    if (before == closed_word)
      return hold_outcome::gone;
    const bool live = is_live(before, now_ms_);
    if (!live && !has_room(granules))
      return hold_outcome::refused;
    const auto wanted = next_word(before, live, end_ms_, who_);
    // A word that the hold does not change is not written: writing would cost as much as the
    // look-up.
    if (wanted != before && !word.compare_exchange_weak(before, wanted, memory_order_acq_rel))
      continue;
    count(end_of(before), live, end_of(wanted), granules);
    return hold_outcome::held;
  }
}

bool hold_course::has_room(std::uint32_t granules) noexcept {
  if (knows_room_ && granules <= room_)
    return true;
  settle();
  const auto max = table_.granules_max();
  room_ = max - std::min(max, table_.taken(now_ms_));
  knows_room_ = true;
  return granules <= room_;
}

/// Counts a hold that ends at `end_ms`; when the page was held already (`live`), until `before`,
/// moves that hold to the bucket of its new end.
void hold_course::count(std::uint64_t before, bool live, std::uint64_t end_ms,
                        std::uint32_t granules) noexcept {
  if (!live) {
    room_ -= granules;
    ++pending_.pages;
    pending_.granules += granules;
    if (pending_.granules * hold_table::course_parts > table_.granules_max())
      settle();
  } else if (bucket_of(before) != bucket_of(end_ms)) {
    table_.uncount(before, {1, granules});
    table_.count(end_ms, {1, granules});
  }
}

bool hold_course::release(slot_id slot, std::uint32_t granules) noexcept {
  settle();
  return table_.release(slot, granules, who_, now_);
}

void hold_course::settle() noexcept {
  knows_room_ = false;
  if (const auto pages = std::exchange(pending_, {}); pages.pages > 0)
    table_.count(end_ms_, pages);
}

} // namespace peercache::storage
