#include "storage/page_index.hpp"

#include "common/assert.hpp"

#include <functional>
#include <utility>

namespace peercache::storage {
namespace {

constexpr std::uint32_t bits_at_start = 10;
constexpr std::uint32_t bits_max = 32;

} // namespace

page_index::page_index(slot_table slots)
    : slots_(slots), cells_(std::size_t{1} << bits_at_start), bits_(bits_at_start) {}

std::uint32_t page_index::tag_of(const page_key& key) noexcept {
  return static_cast<std::uint32_t>(std::hash<page_key>{}(key) >> 32);
}

std::optional<slot_id> page_index::find(const page_key& key) const noexcept {
  auto tag = tag_of(key);
  for (auto at = home_of(tag); cells_[at].slot_plus_one != 0; at = next(at))
    if (slot_id slot{cells_[at].slot_plus_one - 1};
        cells_[at].tag == tag && slots_.has_key(slot, key))
      return slot;
  return std::nullopt;
}

void page_index::insert(const page_key& key, slot_id slot) {
  PEERCACHE_HOT_ASSERT(!find(key));
  if ((size_ + 1) * 4 > cells_.size() * 3)
    grow();
  place({tag_of(key), slot.value + 1});
  ++size_;
}

void page_index::place(cell value) noexcept {
  auto at = home_of(value.tag);
  while (cells_[at].slot_plus_one != 0)
    at = next(at);
  cells_[at] = value;
}

void page_index::grow() {
  PEERCACHE_ASSERT(bits_ < bits_max);
  auto old = std::exchange(cells_, std::vector<cell>(cells_.size() * 2));
  ++bits_;
  for (const auto& value : old)
    if (value.slot_plus_one != 0)
      place(value);
}

void page_index::erase(const page_key& key, slot_id slot) noexcept {
  auto hole = home_of(tag_of(key));
  while (cells_[hole].slot_plus_one != slot.value + 1) {
    PEERCACHE_ASSERT(cells_[hole].slot_plus_one != 0);
    hole = next(hole);
  }
  // Later cells of the run move up into the hole, so that no search ends early and no tombstones
  // gather.
  auto mask = cells_.size() - 1;
  for (auto at = next(hole); cells_[at].slot_plus_one != 0; at = next(at)) {
    auto from_home = (at - home_of(cells_[at].tag)) & mask;
    if (from_home >= ((at - hole) & mask)) {
      cells_[hole] = cells_[at];
      hole = at;
    }
  }
  cells_[hole] = {};
  --size_;
}

} // namespace peercache::storage
