#include "client/location_cache.hpp"

#include <algorithm>
#include <bit>
#include <cstdlib>

namespace peercache::client {

void location_cache::free_memory::operator()(void* memory) const noexcept {
  std::free(memory);
}

location_cache::location_cache(std::uint64_t capacity_keys) {
  if (capacity_keys == 0)
    return;
  const auto count = std::bit_ceil((capacity_keys - 1) / ways + 1);
  // Zero pages cost nothing until they are used; an entry that is all zero is an empty one.
  buckets_.reset(static_cast<bucket*>(std::calloc(count, sizeof(bucket))));
  kept_.reset(static_cast<std::uint8_t*>(std::calloc(count, 1)));
  mask_ = count - 1;
}

location_cache::entry* location_cache::entry_of(std::size_t index, const page_key& key) noexcept {
  if (kept_[index] == 0)
    return nullptr;
  auto& entries = buckets_[index].entries;
  const auto place = std::find_if(entries.begin(), entries.end(), [&](const entry& each) {
    return each.used_at != 0 && each.key == key;
  });
  return place == entries.end() ? nullptr : &*place;
}

void location_cache::forget(std::size_t index, entry& known) noexcept {
  known.used_at = 0;
  --kept_[index];
}

std::optional<directory::page_location> location_cache::find(const page_key& key) noexcept {
  if (!buckets_)
    return std::nullopt;
  const auto index = index_of(key);
  const std::lock_guard guard{lock_of(index)};
  auto* known = entry_of(index, key);
  if (known == nullptr)
    return std::nullopt;
  known->used_at = std::max(1u, clock_.fetch_add(1, std::memory_order_relaxed));
  return known->location;
}

void location_cache::store(const page_key& key, const directory::page_location& location) noexcept {
  if (!buckets_)
    return;
  const auto index = index_of(key);
  const std::lock_guard guard{lock_of(index)};
  auto* place = entry_of(index, key);
  if (place == nullptr) {
    auto& entries = buckets_[index].entries;
    place = &*std::min_element(entries.begin(), entries.end(),
                               [](const auto& a, const auto& b) { return a.used_at < b.used_at; });
    kept_[index] += place->used_at == 0 ? 1 : 0;
  }
  place->key = key;
  place->location = location;
  place->used_at = std::max(1u, clock_.fetch_add(1, std::memory_order_relaxed));
}

void location_cache::erase(const page_key& key, const directory::page_location& stale) noexcept {
  if (!buckets_)
    return;
  const auto index = index_of(key);
  const std::lock_guard guard{lock_of(index)};
  auto* known = entry_of(index, key);
  if (known != nullptr && known->location.holder == stale.holder &&
      known->location.gen == stale.gen)
    forget(index, *known);
}

void location_cache::erase(const page_key& key) noexcept {
  if (!buckets_)
    return;
  const auto index = index_of(key);
  const std::lock_guard guard{lock_of(index)};
  if (auto* known = entry_of(index, key); known != nullptr)
    forget(index, *known);
}

} // namespace peercache::client
