#include "client/location_cache.hpp"

#include <algorithm>
#include <bit>
#include <cstdlib>

namespace peercache::client {

void location_cache::free_memory::operator()(bucket* memory) const noexcept {
  std::free(memory);
}

location_cache::location_cache(std::uint64_t capacity_keys) {
  if (capacity_keys == 0)
    return;
  const auto count = std::bit_ceil((capacity_keys - 1) / ways + 1);
  // Zero pages cost nothing until they are used; an entry that is all zero is an empty one.
  buckets_.reset(static_cast<bucket*>(std::calloc(count, sizeof(bucket))));
  mask_ = count - 1;
}

std::optional<directory::page_location> location_cache::find(const page_key& key) noexcept {
  if (!buckets_)
    return std::nullopt;
  auto index = index_of(key);
  std::lock_guard guard{lock_of(index)};
  for (auto& entry : buckets_[index].entries)
    if (entry.used_at != 0 && entry.key == key) {
      entry.used_at = std::max(1u, clock_.fetch_add(1, std::memory_order_relaxed));
      return entry.location;
    }
  return std::nullopt;
}

void location_cache::store(const page_key& key, const directory::page_location& location) noexcept {
  if (!buckets_)
    return;
  auto index = index_of(key);
  std::lock_guard guard{lock_of(index)};
  auto& entries = buckets_[index].entries;
  auto place = std::find_if(entries.begin(), entries.end(),
                            [&](const entry& e) { return e.used_at != 0 && e.key == key; });
  if (place == entries.end())
    place = std::min_element(entries.begin(), entries.end(),
                             [](const auto& a, const auto& b) { return a.used_at < b.used_at; });
  place->key = key;
  place->location = location;
  place->used_at = std::max(1u, clock_.fetch_add(1, std::memory_order_relaxed));
}

void location_cache::erase(const page_key& key, const directory::page_location& stale) noexcept {
  if (!buckets_)
    return;
  auto index = index_of(key);
  std::lock_guard guard{lock_of(index)};
  for (auto& entry : buckets_[index].entries)
    if (entry.used_at != 0 && entry.key == key && entry.location.holder == stale.holder &&
        entry.location.gen == stale.gen)
      entry.used_at = 0;
}

void location_cache::erase(const page_key& key) noexcept {
  if (!buckets_)
    return;
  auto index = index_of(key);
  std::lock_guard guard{lock_of(index)};
  for (auto& entry : buckets_[index].entries)
    if (entry.used_at != 0 && entry.key == key)
      entry.used_at = 0;
}

} // namespace peercache::client
