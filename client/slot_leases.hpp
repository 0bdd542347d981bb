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
  /// A slot for a page of that many granules, if one is leased.
  bool take(std::uint32_t granules, slot_id& slot);
  /// How many more to ask for, so that `target` are leased or on their way; they count as on their
  /// way from now on.
  std::uint32_t ask_for(std::uint32_t granules, std::uint64_t target);
  /// `asked` slots for pages of that many granules were on their way, `slots` have come. What
  /// cannot be used any more is returned: to be abandoned.
  std::vector<slot_id> add(std::uint32_t granules, std::uint32_t asked,
                           const std::vector<slot_id>& slots);

private:
  std::mutex lock_;
  std::uint32_t granules_ = 0; ///< By lock_, as all below.
  std::uint64_t on_their_way_ = 0;
  std::vector<slot_id> slots_;
};

} // namespace peercache::client
