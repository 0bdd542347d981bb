#pragma once

#include "common/assert.hpp"
#include "common/ids.hpp"

#include <cstdint>
#include <unordered_map>

namespace peercache::directory {

/// Knows which slots of a pool hold copies of other hosts' pages, and bounds those copies in bytes:
/// a hot page is worth a place on many hosts, but mirrors must not fill a pool. Threads: none; the
/// owner serializes.
class mirror_share {
public:
  explicit mirror_share(std::uint64_t bytes_max = 0) : bytes_max_(bytes_max) {}

  bool has_room(std::uint64_t bytes) const noexcept { return bytes_ + bytes <= bytes_max_; }
  /// Notes that `slot` holds a mirror of this length. @pre `has_room`
  void add(slot_id slot, std::uint32_t bytes) {
    if (slots_.emplace(slot.value, bytes).second)
      bytes_ += bytes;
    PEERCACHE_ASSERT(bytes_ <= bytes_max_);
  }
  /// Call when the page in `slot` has left the pool; for a page that is not a mirror the call
  /// changes nothing.
  void remove(slot_id slot) noexcept {
    if (auto found = slots_.find(slot.value); found != slots_.end()) {
      PEERCACHE_ASSERT(bytes_ >= found->second);
      bytes_ -= found->second;
      slots_.erase(found);
    }
  }
  bool contains(slot_id slot) const noexcept { return slots_.contains(slot.value); }
  std::uint64_t bytes() const noexcept { return bytes_; }
  std::uint64_t size() const noexcept { return slots_.size(); }

private:
  std::uint64_t bytes_max_;
  std::uint64_t bytes_ = 0;
  /// Lengths in bytes of the mirrored pages, by slot.
  std::unordered_map<std::uint32_t, std::uint32_t> slots_;
};

} // namespace peercache::directory
