#include "client/location_cache.hpp"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <type_traits>

namespace peercache::client {

void location_cache::free_memory::operator()(void* memory) const noexcept {
  std::free(memory);
}

namespace {

constexpr std::size_t cache_line_bytes = 64;

std::uint8_t tag_of(const page_key& key) noexcept {
  // The bytes before this one choose the bucket.
  constexpr std::size_t after_prefix = sizeof(std::uint64_t);
  return std::max<std::uint8_t>(1, key.bytes[after_prefix]);
}

} // namespace

location_cache::location_cache(std::uint64_t capacity_keys) {
  if (capacity_keys == 0)
    return;
  const auto count = std::bit_ceil((capacity_keys - 1) / ways + 1);
  // Zero pages cost nothing until they are used; an entry whose tag is zero is an empty one.
  const auto zeros = [count](auto& owner) {
    using each = std::remove_reference_t<decltype(owner[0])>;
    owner.reset(static_cast<each*>(std::calloc(count, sizeof(each))));
  };
  zeros(tags_);
  zeros(used_at_);
  zeros(entries_);
  if (!used_at_ || !entries_)
    tags_.reset(); // Without memory for all three the cache keeps nothing.
  mask_ = count - 1;
}

std::size_t location_cache::way_of(std::size_t index, const page_key& key) const noexcept {
  const auto& tags = tags_[index];
  const auto tag = tag_of(key);
  std::size_t way = 0;
  while (way < ways && !(tags[way] == tag && entries_[index][way].key == key))
    ++way;
  return way;
}

std::size_t location_cache::victim_of(std::size_t index) const noexcept {
  const auto& tags = tags_[index];
  const auto empty = std::ranges::find(tags, 0);
  if (empty != tags.end())
    return static_cast<std::size_t>(empty - tags.begin());
  const auto& used = used_at_[index];
  return static_cast<std::size_t>(std::ranges::min_element(used) - used.begin());
}

void location_cache::note_use(std::size_t index, std::size_t way) noexcept {
  used_at_[index][way] = clock_.fetch_add(1, std::memory_order_relaxed);
}

void location_cache::prefetch(const page_key& key) const noexcept {
  if (!tags_)
    return;
  const auto index = index_of(key);
  __builtin_prefetch(&tags_[index], 1);
  __builtin_prefetch(&used_at_[index], 1);
}

/// Begins to load the entry that a store of this key writes, unless another key has the same tag.
void location_cache::prefetch_entry_for(const page_key& key) noexcept {
  const auto index = index_of(key);
  const std::lock_guard guard{lock_of(index)};
  const auto same_tag = std::ranges::find(tags_[index], tag_of(key));
  const auto way = same_tag != tags_[index].end()
                       ? static_cast<std::size_t>(same_tag - tags_[index].begin())
                       : victim_of(index);
  const auto* first = reinterpret_cast<const std::byte*>(&entries_[index][way]);
  for (std::size_t at = 0; at < sizeof(entry); at += cache_line_bytes)
    __builtin_prefetch(first + at, 1);
  __builtin_prefetch(first + sizeof(entry) - 1, 1);
}

void location_cache::prefetch_for_stores(std::span<const page_key> keys) noexcept {
  if (!tags_)
    return;
  constexpr std::size_t ahead = 8;
  const auto some = keys.first(std::min(keys.size(), stores_ahead));
  for (std::size_t i = 0; i < some.size() + ahead; ++i) {
    if (i < some.size())
      prefetch(some[i]);
    if (i >= ahead)
      prefetch_entry_for(some[i - ahead]);
  }
}

std::optional<directory::page_location> location_cache::find(const page_key& key) noexcept {
  if (!tags_)
    return std::nullopt;
  const auto index = index_of(key);
  const std::lock_guard guard{lock_of(index)};
  const auto way = way_of(index, key);
  if (way == ways)
    return std::nullopt;
  note_use(index, way);
  return entries_[index][way].location;
}

void location_cache::store(const page_key& key, const directory::page_location& location) noexcept {
  if (!tags_)
    return;
  const auto index = index_of(key);
  const std::lock_guard guard{lock_of(index)};
  auto way = way_of(index, key);
  if (way == ways) {
    way = victim_of(index);
    tags_[index][way] = tag_of(key);
    entries_[index][way].key = key;
  }
  entries_[index][way].location = location;
  note_use(index, way);
}

void location_cache::erase(const page_key& key, const directory::page_location& stale) noexcept {
  if (!tags_)
    return;
  const auto index = index_of(key);
  const std::lock_guard guard{lock_of(index)};
  const auto way = way_of(index, key);
  if (way == ways)
    return;
  const auto& known = entries_[index][way].location;
  if (known.holder == stale.holder && known.gen == stale.gen)
    tags_[index][way] = 0;
}

void location_cache::erase(const page_key& key) noexcept {
  if (!tags_)
    return;
  const auto index = index_of(key);
  const std::lock_guard guard{lock_of(index)};
  if (const auto way = way_of(index, key); way != ways)
    tags_[index][way] = 0;
}

} // namespace peercache::client
