#pragma once

#include "common/ids.hpp"
#include "common/limits.hpp"

#include <cstdint>
#include <mutex>
#include <vector>

namespace peercache::client {

/// Slots that the node reserved for the sets to come, so that a set need not ask before it copies.
/// All for pages of one number of granules: that of the last set. Threads: any.
class slot_leases {
public:
  static constexpr std::uint32_t granules_of(std::uint32_t length_bytes) noexcept {
    return (length_bytes + limits::granule_bytes - 1) / limits::granule_bytes;
  }

  /// A slot for a page of that many granules, if one is leased.
  bool take(std::uint32_t granules, slot_id& slot);
  /// Slots for pages of that many granules have come. What is left of another size is returned: to
  /// be abandoned.
  std::vector<slot_id> add(std::uint32_t granules, const std::vector<slot_id>& slots);
  /// Everything that is leased, and nothing is any more.
  std::vector<slot_id> clear();
  std::size_t available(std::uint32_t granules) const;

private:
  mutable std::mutex lock_;
  std::uint32_t granules_ = 0; ///< By lock_.
  std::vector<slot_id> slots_; ///< By lock_.
};

} // namespace peercache::client
