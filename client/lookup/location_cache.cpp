#include "client/lookup/location_cache.hpp"

#include <algorithm>
#include <bit>

namespace peercache::client {

namespace {

constexpr std::size_t cache_line_bytes = 64;

std::uint8_t tag_of(const page_key& key) noexcept {
  // The bytes before this one choose the bucket.
  constexpr std::size_t after_prefix = sizeof(std::uint64_t);
  return std::max<std::uint8_t>(1, key.bytes[after_prefix]);
}

constexpr unsigned byte_bits = 8;
constexpr std::uint64_t each_byte = 0x0101010101010101;

/// Returns the bytes of `word` that are equal to `value`, as the highest bit of each of them.
constexpr std::uint64_t equal_bytes(std::uint64_t word, std::uint8_t value) noexcept {
  constexpr auto low_bits = each_byte * 0x7f;
  const auto difference = word ^ each_byte * value;
  return ~(((difference & low_bits) + low_bits) | difference | low_bits);
}

/// The way of the first byte that `equal_bytes` has found. @pre equal != 0
constexpr std::size_t first_way(std::uint64_t equal) noexcept {
  return static_cast<std::size_t>(std::countr_zero(equal)) / byte_bits;
}

} // namespace

location_cache::location_cache(std::uint64_t capacity_keys) {
  if (capacity_keys == 0)
    return;
  const auto count = std::bit_ceil((capacity_keys - 1) / ways + 1);
  // Zero pages cost nothing until they are used; a way whose tag is zero is an empty one.
  heads_ = zeroed_array<head>(count);
  entries_ = zeroed_array<entry>(count * ways + 1);
  if (!entries_)
    heads_ = {}; // Without memory for both the cache keeps nothing.
  mask_ = count - 1;
}

std::size_t location_cache::way_of(std::size_t index, const page_key& key) const noexcept {
  const auto tags = heads_[index].tags.load(std::memory_order_relaxed);
  for (auto equal = equal_bytes(tags, tag_of(key)); equal != 0; equal &= equal - 1)
    if (const auto way = first_way(equal); entry_at(index, way).key == key)
      return way;
  return ways;
}

std::size_t location_cache::victim_of(std::size_t index) const noexcept {
  const auto& [tags, used_after, numbers] = heads_[index];
  if (const auto empty = equal_bytes(tags.load(std::memory_order_relaxed), 0); empty != 0)
    return first_way(empty);
  // A thread without the lock may see a word in which no entry is the first.
  const auto first = equal_bytes(used_after.load(std::memory_order_relaxed), 0);
  return first != 0 ? first_way(first) : 0;
}

void location_cache::set_tag(std::size_t index, std::size_t way, std::uint8_t tag) noexcept {
  auto& tags = heads_[index].tags;
  const auto at = way * byte_bits;
  const auto others = tags.load(std::memory_order_relaxed) & ~(std::uint64_t{0xff} << at);
  tags.store(others | std::uint64_t{tag} << at, std::memory_order_relaxed);
}

void location_cache::give_entry(std::size_t index, std::size_t way) noexcept {
  auto& number = heads_[index].numbers[way];
  if (number.load(std::memory_order_relaxed) == 0)
    number.store(entries_given_.fetch_add(1, std::memory_order_relaxed) + 1,
                 std::memory_order_relaxed);
}

void location_cache::note_use(std::size_t index, std::size_t way) noexcept {
  auto& used_after = heads_[index].used_after;
  const auto after_all = used_after.load(std::memory_order_relaxed) | std::uint64_t{0xff}
                                                                          << way * byte_bits;
  used_after.store(after_all & ~(each_byte << way), std::memory_order_relaxed);
}

void location_cache::prefetch(const page_key& key) const noexcept {
  if (heads_)
    __builtin_prefetch(&heads_[index_of(key)], 1);
}

/// Begins to load the entry that a store of this key writes, unless another key has the same tag; a
/// way that was never used gets the entry behind the one that was given last.
void location_cache::prefetch_entry_for(const page_key& key) noexcept {
  const auto index = index_of(key);
  const auto same = equal_bytes(heads_[index].tags.load(std::memory_order_relaxed), tag_of(key));
  const auto way = same != 0 ? first_way(same) : victim_of(index);
  const auto given = heads_[index].numbers[way].load(std::memory_order_relaxed);
  const auto number = given != 0 ? given : entries_given_.load(std::memory_order_relaxed) + 1;
  const auto* first = reinterpret_cast<const std::byte*>(&entries_[number]);
  for (std::size_t at = 0; at < sizeof(entry); at += cache_line_bytes)
    __builtin_prefetch(first + at, 1);
  __builtin_prefetch(first + sizeof(entry) - 1, 1);
}

void location_cache::prefetch_for_stores(std::span<const page_key> keys) noexcept {
  if (!heads_)
    return;
  constexpr std::size_t ahead = 16;
  const auto some = keys.first(std::min(keys.size(), stores_ahead));
  for (std::size_t i = 0; i < some.size() + ahead; ++i) {
    if (i < some.size())
      prefetch(some[i]);
    if (i >= ahead)
      prefetch_entry_for(some[i - ahead]);
  }
}

std::optional<directory::page_location> location_cache::find(const page_key& key) noexcept {
  if (!heads_)
    return std::nullopt;
  const auto index = index_of(key);
  const std::lock_guard guard{lock_of(index)};
  const auto way = way_of(index, key);
  if (way == ways)
    return std::nullopt;
  note_use(index, way);
  return entry_at(index, way).location;
}

void location_cache::store(const page_key& key, const directory::page_location& location) noexcept {
  if (!heads_)
    return;
  const auto index = index_of(key);
  const std::lock_guard guard{lock_of(index)};
  auto way = way_of(index, key);
  if (way == ways) {
    way = victim_of(index);
    give_entry(index, way);
    set_tag(index, way, tag_of(key));
    entry_at(index, way).key = key;
  }
  entry_at(index, way).location = location;
  note_use(index, way);
}

void location_cache::erase(const page_key& key, const directory::page_location& stale) noexcept {
  if (!heads_)
    return;
  const auto index = index_of(key);
  const std::lock_guard guard{lock_of(index)};
  const auto way = way_of(index, key);
  if (way == ways)
    return;
  const auto& known = entry_at(index, way).location;
  if (known.holder == stale.holder && known.gen == stale.gen)
    set_tag(index, way, 0);
}

void location_cache::erase(const page_key& key) noexcept {
  if (!heads_)
    return;
  const auto index = index_of(key);
  const std::lock_guard guard{lock_of(index)};
  if (const auto way = way_of(index, key); way != ways)
    set_tag(index, way, 0);
}

} // namespace peercache::client
