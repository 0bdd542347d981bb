#include "storage/disk/offset/block_extents.hpp"

#include "common/assert.hpp"

#include <iterator>

namespace peercache::storage {

std::optional<std::uint64_t> block_extents::allocate(std::uint64_t count) {
  PEERCACHE_ASSERT(count != 0);
  const auto best = by_count_.lower_bound({count, 0});
  if (best == by_count_.end())
    return std::nullopt;
  const auto first = best->second;
  cut(by_start_.find(first), first, count);
  return first;
}

void block_extents::take(std::uint64_t first, std::uint64_t count) {
  PEERCACHE_ASSERT(count != 0);
  auto hole = by_start_.upper_bound(first);
  PEERCACHE_ASSERT(hole != by_start_.begin());
  cut(std::prev(hole), first, count);
}

void block_extents::cut(starts::iterator hole, std::uint64_t first, std::uint64_t count) {
  const auto [start, length] = *hole;
  PEERCACHE_ASSERT(first >= start && first + count <= start + length);
  by_count_.erase({length, start});
  by_start_.erase(hole);
  free_blocks_ -= length;
  if (first != start)
    add(start, first - start);
  if (first + count != start + length)
    add(first + count, start + length - first - count);
}

void block_extents::free(std::uint64_t first, std::uint64_t count) {
  PEERCACHE_ASSERT(count != 0 && first + count <= blocks_);
  auto next = by_start_.lower_bound(first);
  PEERCACHE_ASSERT(next == by_start_.end() || next->first >= first + count);
  if (next != by_start_.begin()) {
    const auto before = std::prev(next);
    PEERCACHE_ASSERT(before->first + before->second <= first);
    if (before->first + before->second == first) {
      first = before->first;
      count += before->second;
      free_blocks_ -= before->second;
      by_count_.erase({before->second, before->first});
      by_start_.erase(before);
    }
  }
  if (next != by_start_.end() && next->first == first + count) {
    count += next->second;
    free_blocks_ -= next->second;
    by_count_.erase({next->second, next->first});
    by_start_.erase(next);
  }
  add(first, count);
}

void block_extents::add(std::uint64_t first, std::uint64_t count) {
  by_start_.emplace(first, count);
  by_count_.emplace(count, first);
  free_blocks_ += count;
}

std::uint64_t block_extents::largest() const noexcept {
  return by_count_.empty() ? 0 : by_count_.rbegin()->first;
}

std::uint64_t block_extents::free_in_smaller(std::uint64_t count) const noexcept {
  std::uint64_t sum = 0;
  for (auto at = by_count_.begin(); at != by_count_.end() && at->first < count; ++at)
    sum += at->first;
  return sum;
}

} // namespace peercache::storage
