#pragma once

#include "common/assert.hpp"
#include "common/ids.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace peercache::directory {

/// A set of slots, one bit each. Threads: none; the owner serializes.
class slot_set {
public:
  void insert(slot_id slot) {
    if (slot.value >= marked_.size())
      marked_.resize(slot.value + std::size_t{1});
    count_ += marked_[slot.value] ? 0 : 1;
    marked_[slot.value] = true;
  }
  bool contains(slot_id slot) const { return slot.value < marked_.size() && marked_[slot.value]; }
  /// Takes the slot out of the set; returns whether it was in the set.
  bool erase(slot_id slot) {
    const bool was = contains(slot);
    if (was)
      marked_[slot.value] = false;
    count_ -= was ? 1 : 0;
    return was;
  }
  std::uint64_t size() const noexcept { return count_; }

private:
  std::vector<bool> marked_;
  std::uint64_t count_ = 0;
};

/// Remembers which pages of a pool are on disk too, so that an eviction need not ask the disk. The
/// marks also tell which pages the disk has given up to make room for other pages: the search for
/// unwritten pages passes over such pages, because on a disk smaller than the pool the search would
/// never end.
///
/// Threads: none; the owner serializes. Invariant: no slot is in both sets, `kept_` (on disk too)
/// and `let_go_` (given up by the disk).
class disk_marks {
public:
  bool kept(slot_id slot) const { return kept_.contains(slot); }
  bool let_go(slot_id slot) const { return let_go_.contains(slot); }
  std::uint64_t kept_count() const noexcept { return kept_.size(); }
  std::uint64_t let_go_count() const noexcept { return let_go_.size(); }

  /// Notes that the page in this slot is now on disk.
  void note_kept(slot_id slot) {
    kept_.insert(slot);
    let_go_.erase(slot);
  }
  /// Notes that the disk has given up the page in this slot.
  void note_let_go(slot_id slot) {
    if (kept_.erase(slot))
      let_go_.insert(slot);
  }
  /// Notes that the page left its slot. Returns whether the page is on disk.
  bool forget(slot_id slot) {
    const bool was_let_go = let_go_.erase(slot);
    const bool was_kept = kept_.erase(slot);
    PEERCACHE_ASSERT(!was_let_go || !was_kept);
    return was_kept;
  }

private:
  slot_set kept_;
  slot_set let_go_;
};

} // namespace peercache::directory
