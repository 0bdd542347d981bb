// How a page_pool zeroes the bytes of slots in limbo before they are free.

#include "storage/page_pool.hpp"

#include "common/limits.hpp"

#include <algorithm>

namespace peercache::storage {
namespace {

/// Slots that one call of `scrub` looks at: many may wait for their readers, and a call goes on
/// behind those that the last one has looked at.
constexpr std::size_t scrub_looks_max = 256;

} // namespace

bool page_pool::is_zeroed(const scrubbing& of) const {
  return of.done_bytes == std::uint64_t{pages_[of.slot.value].granules()} * limits::granule_bytes;
}

/// Zeroes the next bytes of a slot that nobody reads; returns how many.
std::uint64_t page_pool::zero_some(scrubbing& of, std::uint64_t bytes_max) {
  const auto whole = std::uint64_t{pages_[of.slot.value].granules()} * limits::granule_bytes;
  const auto piece = std::min(bytes_max, whole - of.done_bytes);
  slots_.zero(of.slot, of.done_bytes, piece);
  of.done_bytes += piece;
  zeroed_bytes_ += piece;
  return piece;
}

/// Frees a slot whose bytes are all zero. Only now its entries stop saying that bytes have to be
/// zeroed or that somebody fills them, so that a process that takes the pool over knows it.
std::uint32_t page_pool::free_zeroed(slot_id slot) {
  slots_.note_zeroed(slot);
  for (std::uint32_t i = 0; i < pages_[slot.value].granules(); ++i)
    slots_.end_fill({slot.value + i});
  return release(slot);
}

std::uint32_t page_pool::zero_and_free(scrubbing of) {
  zero_some(of, UINT64_MAX);
  return free_zeroed(of.slot);
}

bool page_pool::scrub(std::uint64_t bytes_max) {
  for (auto looks = std::min(to_scrub_.size(), scrub_looks_max); looks > 0 && bytes_max > 0;
       --looks) {
    auto next = to_scrub_.front();
    to_scrub_.pop_front();
    if (slots_.pins(next.slot) != 0) {
      to_scrub_.push_back(next);
      continue;
    }
    bytes_max -= zero_some(next, bytes_max);
    if (is_zeroed(next))
      free_zeroed(next.slot);
    else
      to_scrub_.push_front(next);
  }
  return bytes_max == 0 && !to_scrub_.empty();
}

/// Frees all slots in limbo that begin or end in these granules and that nobody reads; zeroes them
/// first where that is due. Returns the free extent that the last one is part of; no_extent when
/// there is no such slot.
std::uint32_t page_pool::free_limbo(std::uint64_t first, std::uint64_t end) {
  auto extent = no_extent;
  const auto waits_here = [&](slot_id slot) {
    return slot.value < end && slot.value + limits::granules_per_page_max > first &&
           slot.value + pages_[slot.value].granules() > first && slots_.pins(slot) == 0;
  };
  std::erase_if(limbo_, [&](slot_id slot) {
    const bool here = waits_here(slot);
    if (here)
      extent = release(slot);
    return here;
  });
  std::erase_if(to_scrub_, [&](const scrubbing& each) {
    const bool here = waits_here(each.slot);
    if (here)
      extent = zero_and_free(each);
    return here;
  });
  return extent;
}

} // namespace peercache::storage
