#include "storage/host_index.hpp"

#include <algorithm>

namespace peercache::storage {
namespace {

using std::memory_order_acquire;
using std::memory_order_relaxed;
using std::memory_order_release;

constexpr std::uint32_t granules_per_bucket = 4;
constexpr int insert_attempts_max = 8;

constexpr std::uint64_t cell_of(std::uint32_t tag, slot_id slot) noexcept {
  return std::uint64_t{tag} << 32 | slot.value;
}

constexpr slot_id slot_of(std::uint64_t cell) noexcept {
  return {static_cast<std::uint32_t>(cell)};
}

/// Maps a hash evenly to a number from 0 to `end` - 1.
constexpr std::uint32_t below(std::uint64_t hash, std::size_t end) noexcept {
  return static_cast<std::uint32_t>((hash >> 32) * end >> 32);
}

} // namespace

std::uint32_t host_index::buckets_for(std::uint32_t granules) noexcept {
  return std::max(2u, (granules + granules_per_bucket - 1) / granules_per_bucket);
}

host_index::host_index(std::span<bucket> buckets, slot_table slots) noexcept
    : buckets_(buckets), slots_(slots) {}

host_index::place host_index::place_of(const page_key& key) const noexcept {
  // Most keys are digests already; the multiplications spread the bits of keys that are not.
  const auto first = key.prefix() * 0x9E3779B97F4A7C15u;
  const auto second = (first ^ first >> 29) * 0xBF58476D1CE4E5B9u;
  place at;
  at.buckets = {below(first, buckets_.size()), below(second, buckets_.size())};
  at.tag = static_cast<std::uint32_t>(second ^ second >> 32) | 1u;
  return at;
}

void host_index::prefetch(const page_key& key) const noexcept {
  if (!buckets_.empty())
    for (const auto number : place_of(key).buckets)
      __builtin_prefetch(&buckets_[number]);
}

void host_index::clear() noexcept {
  for (auto& [cells] : buckets_)
    for (auto& word : cells)
      word.store(0, memory_order_relaxed);
}

std::optional<host_index::page> host_index::find(const page_key& key,
                                                 std::uint32_t length_bytes) const noexcept {
  if (buckets_.empty())
    return std::nullopt;
  const auto at = place_of(key);
  for (const auto number : at.buckets)
    for (const auto& word : buckets_[number].cells) {
      const auto cell = word.load(memory_order_acquire);
      if (static_cast<std::uint32_t>(cell >> 32) != at.tag)
        continue;
      const auto found = slots_.page_in(slot_of(cell));
      if (found && found->key == key && (length_bytes == 0 || found->length_bytes == length_bytes))
        return page{slot_of(cell), *found};
    }
  return std::nullopt;
}

bool host_index::is_live(std::uint64_t cell, std::uint32_t in_bucket) const noexcept {
  const auto found = slots_.page_in(slot_of(cell));
  if (!found)
    return false;
  const auto at = place_of(found->key);
  return cell == cell_of(at.tag, slot_of(cell)) &&
         (at.buckets[0] == in_bucket || at.buckets[1] == in_bucket);
}

std::atomic<std::uint64_t>* host_index::empty_cell(const place& at) const noexcept {
  std::atomic<std::uint64_t>* chosen = nullptr;
  std::ptrdiff_t most_empty = 0;
  for (const auto number : at.buckets) {
    auto& cells = buckets_[number].cells;
    const auto is_empty = [](const auto& word) { return word.load(memory_order_relaxed) == 0; };
    const auto empty = std::count_if(cells.begin(), cells.end(), is_empty);
    const auto first = std::find_if(cells.begin(), cells.end(), is_empty);
    if (empty > most_empty && first != cells.end()) {
      most_empty = empty;
      chosen = &*first;
    }
  }
  return chosen;
}

std::atomic<std::uint64_t>* host_index::dead_cell(const place& at,
                                                  std::uint64_t& held) const noexcept {
  for (const auto number : at.buckets)
    for (auto& word : buckets_[number].cells)
      if (held = word.load(memory_order_relaxed); !is_live(held, number))
        return &word;
  return nullptr;
}

bool host_index::holds(const place& at, std::uint64_t cell) const noexcept {
  return std::any_of(at.buckets.begin(), at.buckets.end(), [&](std::uint32_t number) {
    const auto& cells = buckets_[number].cells;
    return std::any_of(cells.begin(), cells.end(), [cell](const auto& word) {
      return word.load(memory_order_relaxed) == cell;
    });
  });
}

void host_index::erase(const page_key& key, slot_id slot) noexcept {
  if (buckets_.empty())
    return;
  const auto at = place_of(key);
  for (const auto number : at.buckets)
    for (auto& word : buckets_[number].cells)
      if (auto held = cell_of(at.tag, slot); word.load(memory_order_relaxed) == held)
        word.compare_exchange_strong(held, 0, memory_order_release, memory_order_relaxed);
}

bool host_index::insert(const page_key& key, slot_id slot) noexcept {
  if (buckets_.empty())
    return false;
  const auto at = place_of(key);
  const auto wanted = cell_of(at.tag, slot);
  if (holds(at, wanted))
    return true;
  // Another writer may take the cell that was chosen; then the next attempt chooses another cell,
  // and has fewer cells to choose from.
  for (int attempt = 0; attempt < insert_attempts_max; ++attempt) {
    std::uint64_t held = 0;
    auto* chosen = empty_cell(at);
    if (chosen == nullptr)
      chosen = dead_cell(at, held);
    if (chosen == nullptr)
      return false;
    if (chosen->compare_exchange_strong(held, wanted, memory_order_release, memory_order_relaxed))
      return true;
  }
  return false;
}

} // namespace peercache::storage
