// The memory of a shard: its header, its records, and the index from keys to the heads of their
// lists.

#include "common/assert.hpp"
#include "common/hash_seed.hpp"
#include "directory/shard_changes.hpp"

#include <algorithm>

namespace peercache::directory {

namespace {

constexpr std::uint32_t first_index_bits = 2;
constexpr std::uint32_t first_holders_room = 16;
static_assert(first_holders_room % 2 == 0, "two holders share a unit");

/// Whether an index of `lines` lines takes one more key: a fifth of its places stays empty.
constexpr bool has_room(std::uint32_t lines, std::size_t keys) noexcept {
  return (keys + 1) * 5 <= std::size_t{lines} * places_per_line * 4;
}

} // namespace

/// Units for `locations` records, for all indices up to the largest one, and for all tables of
/// holders.
std::uint64_t shard::units_for(std::size_t locations) noexcept {
  return 2 * std::uint64_t{std::min(locations, locations_possible)} + 4 * records_per_chunk +
         4 * std::uint64_t{no_holder};
}

void shard::make_memory() {
  const auto unit = memory_.allocate(1);
  PEERCACHE_ASSERT(unit == header_unit);
  header_.seed = hash_seed::mix(0x736861726400, locations_max_);
  header_.index_bits = first_index_bits;
  header_.index = allocate(header_.lines());
  holders_room_ = first_holders_room;
  header_.holders_unit = allocate(holders_room_ / 2);
  set_word(header_unit, 0, header_.encode()[0]);
  store_header();
}

void shard::forbid_remote_reads() noexcept {
  memory_.at(header_unit).words[0].fetch_or(forbidden_bit, std::memory_order_acq_rel);
}

void shard::allow_remote_reads() noexcept {
  memory_.at(header_unit).words[0].fetch_and(~forbidden_bit, std::memory_order_acq_rel);
}

/// Allocates units, and tells readers of other processes how much of the memory they may read.
unit_number shard::allocate(std::uint64_t units) {
  const auto first = memory_.allocate(units);
  if (const auto pieces = static_cast<std::uint32_t>(memory_.shared_units() / piece_units);
      pieces != header_.shared_pieces) {
    const header_change change(*this);
    header_.shared_pieces = pieces;
  }
  return first;
}

void shard::set_view(const view_number& by) {
  if (header_.by == by)
    return;
  const header_change change(*this);
  header_.by = by;
}

// -- words of units

std::uint64_t shard::word(unit_number unit, std::size_t word) const noexcept {
  return memory_.at(unit).words[word].load(std::memory_order_relaxed);
}

void shard::set_word(unit_number unit, std::size_t word, std::uint64_t value,
                     std::memory_order order) noexcept {
  memory_.at(unit).words[word].store(value, order);
}

unit_words shard::load(unit_number unit) const noexcept {
  unit_words words;
  for (std::size_t i = 0; i < words.size(); ++i)
    words[i] = word(unit, i);
  return words;
}

const incarnation& shard::process_of(holder_index holder) const noexcept {
  static constexpr incarnation nobody;
  return holder == no_holder ? nobody : holders_[holder].inc;
}

shard_record shard::at(unit_number record) const noexcept {
  return shard_record::decode(load(record));
}

page_key shard::key_at(unit_number record) const noexcept {
  const auto words = load(record);
  return key_in(words, process_of(holder_in(words)));
}

void shard::put(unit_number unit, const page_key& key, const shard_record& record) noexcept {
  const auto words = record.encode(key, process_of(record.holder));
  for (std::size_t i = 0; i < words.size(); ++i)
    set_word(unit, i, words[i]);
}

void shard::store_header() noexcept {
  const auto words = header_.encode();
  // What the header names is in place before the header is.
  std::atomic_thread_fence(std::memory_order_release);
  // Word 0 never changes here: another thread may just be setting its bit.
  for (std::size_t i = 1; i < words.size(); ++i)
    set_word(header_unit, i, words[i]);
}

void shard::store_holder(holder_index holder) noexcept {
  const auto& entry = holders_[holder];
  const auto words = shard_holder{entry.inc, entry.node, entry.gone}.encode();
  for (std::size_t i = 0; i < words.size(); ++i)
    set_word(header_.holder_unit(holder), holder % 2 * words.size() + i, words[i]);
}

/// Stores all holders, in a larger table if they need one.
void shard::store_holders() {
  const header_change change(*this);
  if (holders_.size() > holders_room_) {
    while (holders_.size() > holders_room_)
      holders_room_ *= 2;
    header_.holders_unit = allocate(holders_room_ / 2);
  }
  header_.holders = static_cast<std::uint32_t>(holders_.size());
  for (std::size_t i = 0; i < holders_.size(); ++i)
    store_holder(static_cast<holder_index>(i));
}

// -- the index

/// Returns the key's place; nothing when the shard has no record of the key.
std::optional<shard::place> shard::find_place(const page_key& key,
                                              std::uint32_t hash) const noexcept {
  const auto name = words_of(key);
  const auto home = header_.home_of(hash);
  for (std::uint32_t i = 0; i < header_.lines(); ++i) {
    const auto line = header_.line_unit(home + i);
    for (std::size_t at = 1; at < words_per_unit; ++at) {
      const auto held = word(line, at);
      if (held == 0 || high_half(held) != hash)
        continue;
      const auto words = load(low_half(held));
      if (is_of(words, name, process_of(holder_in(words))))
        return place{line, at};
    }
    if (keys_passed(word(line, 0)) == 0)
      break;
  }
  return std::nullopt;
}

unit_number shard::first_at(const std::optional<place>& at) const noexcept {
  return at ? low_half(word(at->line, at->word)) : no_unit;
}

/// Lets the place name `first`, whose words are in memory already.
void shard::set_first(const place& at, std::uint32_t hash, unit_number first) noexcept {
  set_word(at.line, at.word, word_of(first, hash), std::memory_order_release);
}

/// Names the record in the first empty place from the home of `hash` on. @pre no place names the
/// key yet, and a place is empty
void shard::insert_place(const shard_header& index, std::uint32_t hash,
                         unit_number first) noexcept {
  for (auto line = index.home_of(hash);; ++line) {
    const auto unit = index.line_unit(line);
    for (std::size_t at = 1; at < words_per_unit; ++at)
      if (word(unit, at) == 0)
        return set_first({unit, at}, hash, first);
    set_word(unit, 0, word(unit, 0) + 1, std::memory_order_release);
  }
}

/// Empties a place. @pre it names a record, or did when the line's change began
void shard::erase_place(const place& at, std::uint32_t hash) noexcept {
  set_word(at.line, at.word, 0);
  for (auto line = header_.home_of(hash); header_.line_unit(line) != at.line; ++line) {
    const auto unit = header_.line_unit(line);
    set_word(unit, 0, word(unit, 0) - 1, std::memory_order_release);
  }
}

/// Makes an index of twice as many lines. The former one stays as it is, for those who still read
/// it, and will look at the header again.
void shard::grow_index() {
  const auto bits = header_.index_bits + 1;
  PEERCACHE_ASSERT(bits < 32);
  const auto unit = allocate(std::uint64_t{1} << bits);
  auto next = header_;
  next.index = unit;
  next.index_bits = bits;
  // Places go by the hashes that are stored in them, so no record is touched.
  for (std::uint32_t line = 0; line < header_.lines(); ++line)
    for (std::size_t at = 1; at < words_per_unit; ++at)
      if (const auto held = word(header_.line_unit(line), at); held != 0)
        insert_place(next, high_half(held), low_half(held));
  const header_change change(*this);
  header_.index = next.index;
  header_.index_bits = next.index_bits;
}

void shard::make_room_for_key() {
  if (!has_room(header_.lines(), keys_))
    grow_index();
}

// -- records

bool shard::may_grow_by(std::size_t records) const noexcept {
  return records > 0 && (!has_room(header_.lines(), keys_ + records - 1) ||
                         locations_ + records > chunks_.size() * records_per_chunk);
}

/// The unit of the record that was made as the `made`-th one.
unit_number shard::unit_of(std::uint32_t made) const noexcept {
  return chunks_[made / records_per_chunk] + static_cast<unit_number>(made % records_per_chunk);
}

unit_number shard::take_record() {
  if (free_head_ != no_unit) {
    const auto taken = free_head_;
    free_head_ = at(taken).next;
    return taken;
  }
  if (records_made_ == chunks_.size() * records_per_chunk)
    chunks_.push_back(allocate(records_per_chunk));
  return unit_of(records_made_++);
}

void shard::give_record(unit_number unit) noexcept {
  put(unit, {}, {.next = free_head_});
  free_head_ = unit;
}

/// Takes one location out of its key's list, and the key out of the index with its last location.
void shard::unlink(unit_number target) noexcept {
  const auto rec = at(target);
  PEERCACHE_ASSERT(rec.holder != no_holder);
  const auto key = key_at(target);
  const auto hash = header_.hash_of(key);
  const auto found = find_place(key, hash);
  PEERCACHE_ASSERT(found);
  const line_change change(*this, found->line);
  if (const auto first = first_at(found); first != target) {
    auto before = first;
    while (at(before).next != target)
      before = at(before).next;
    auto changed = at(before);
    changed.next = rec.next;
    put(before, key, changed);
  } else if (rec.next != no_unit) {
    set_first(*found, hash, rec.next);
  } else {
    erase_place(*found, hash);
    --keys_;
  }
  digest_for(key, rec.holder).remove(fact_digest(key, {rec.gen}, rec.where));
  --locations_;
  --holders_[rec.holder].records;
  give_record(target);
}

range_digest& shard::digest_for(const page_key& key, holder_index holder) noexcept {
  return (*holders_[holder].digest)[range_of(key.prefix())];
}

} // namespace peercache::directory
