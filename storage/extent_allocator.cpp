#include "storage/extent_allocator.hpp"

#include "common/assert.hpp"

#include <algorithm>
#include <bit>

namespace peercache::storage {

extent_allocator::extent_allocator(std::uint32_t granules)
    : granules_(granules), notes_(granules), ends_(granules, false), heads_(bins, none) {
  PEERCACHE_ASSERT(granules > 0 && granules < none);
  link(0, granules);
}

std::uint32_t extent_allocator::bin_of(std::uint32_t count) noexcept {
  return std::min(count, bins) - 1;
}

std::uint32_t extent_allocator::aligned_start(std::uint32_t extent, std::uint32_t count) noexcept {
  auto over = extent % count;
  return over == 0 ? extent : extent - over + count;
}

bool extent_allocator::offers_aligned(std::uint32_t extent, std::uint32_t count) const noexcept {
  std::uint64_t skipped = std::uint64_t{aligned_start(extent, count)} - extent;
  return skipped + count <= notes_[extent].size;
}

std::uint32_t extent_allocator::first_bin_from(std::uint32_t bin) const noexcept {
  auto word = bin / 64;
  if (auto here = occupied_[word] & (~std::uint64_t{0} << bin % 64); here != 0)
    return word * 64 + static_cast<std::uint32_t>(std::countr_zero(here));
  for (auto group = (word + 1) / 64; group < occupied_words_.size(); ++group) {
    auto mask = group == (word + 1) / 64 ? ~std::uint64_t{0} << (word + 1) % 64 : ~std::uint64_t{0};
    if (auto words = occupied_words_[group] & mask; words != 0) {
      word = group * 64 + static_cast<std::uint32_t>(std::countr_zero(words));
      return word * 64 + static_cast<std::uint32_t>(std::countr_zero(occupied_[word]));
    }
  }
  return none;
}

std::uint32_t extent_allocator::choose(std::uint32_t count) const noexcept {
  auto best_bin = first_bin_from(bin_of(count));
  if (best_bin == none)
    return none;
  auto best = heads_[best_bin];
  if (notes_[best].size == count || offers_aligned(best, count))
    return best;
  // An extent of 2 * `count` - 1 granules or more holds an aligned start for `count`, wherever it
  // begins.
  auto roomy_bin = first_bin_from(bin_of(2 * count - 1));
  if (roomy_bin != none && offers_aligned(heads_[roomy_bin], count))
    return heads_[roomy_bin];
  return best;
}

std::optional<std::uint32_t> extent_allocator::allocate(std::uint32_t count) {
  PEERCACHE_ASSERT(count > 0 && count <= limits::granules_per_page_max);
  auto extent = choose(count);
  if (extent == none)
    return std::nullopt;
  auto exact = notes_[extent].size == count;
  auto first = !exact && offers_aligned(extent, count) ? aligned_start(extent, count) : extent;
  allocate_at(extent, first, count);
  return first;
}

void extent_allocator::allocate_at(std::uint32_t extent, std::uint32_t first, std::uint32_t count) {
  auto size = notes_[extent].size;
  PEERCACHE_ASSERT(size > 0 && first >= extent);
  auto before = first - extent;
  PEERCACHE_ASSERT(std::uint64_t{before} + count <= size);
  auto after = size - before - count;
  unlink(extent);
  if (before > 0)
    link(extent, before);
  if (after > 0)
    link(first + count, after);
}

std::uint32_t extent_allocator::free(std::uint32_t first, std::uint32_t count) {
  PEERCACHE_ASSERT(count > 0 && std::uint64_t{first} + count <= granules_);
  PEERCACHE_ASSERT(notes_[first].size == 0 && !ends_[first + count - 1]);
  auto end = first + count;
  if (auto before = extent_before(first); before != none) {
    unlink(before);
    first = before;
  }
  if (end < granules_ && notes_[end].size > 0) {
    auto size = notes_[end].size;
    unlink(end);
    end += size;
  }
  link(first, end - first);
  return first;
}

std::uint32_t extent_allocator::extent_before(std::uint32_t granule) const noexcept {
  if (granule == 0 || !ends_[granule - 1])
    return none;
  const auto& last = notes_[granule - 1];
  return last.size == 1 ? granule - 1 : last.previous;
}

void extent_allocator::link(std::uint32_t first, std::uint32_t count) noexcept {
  auto bin = bin_of(count);
  auto& head = heads_[bin];
  if (head != none)
    notes_[head].previous = first;
  notes_[first] = {.size = count, .next = head, .previous = none};
  head = first;
  if (count > 1)
    notes_[first + count - 1].previous = first;
  ends_[first + count - 1] = true;
  occupied_[bin / 64] |= std::uint64_t{1} << bin % 64;
  occupied_words_[bin / 64 / 64] |= std::uint64_t{1} << bin / 64 % 64;
  free_granules_ += count;
  ++extents_;
}

void extent_allocator::unlink(std::uint32_t first) noexcept {
  auto& it = notes_[first];
  PEERCACHE_ASSERT(it.size > 0);
  auto bin = bin_of(it.size);
  if (it.next != none)
    notes_[it.next].previous = it.previous;
  if (it.previous != none)
    notes_[it.previous].next = it.next;
  else
    heads_[bin] = it.next;
  if (heads_[bin] == none) {
    occupied_[bin / 64] &= ~(std::uint64_t{1} << bin % 64);
    if (occupied_[bin / 64] == 0)
      occupied_words_[bin / 64 / 64] &= ~(std::uint64_t{1} << bin / 64 % 64);
  }
  ends_[first + it.size - 1] = false;
  free_granules_ -= it.size;
  --extents_;
  it.size = 0;
}

} // namespace peercache::storage
