#pragma once

#include "common/ids.hpp"
#include "common/limits.hpp"

#include <cstdint>
#include <mutex>
#include <vector>

namespace peercache::client {

/// Slots that the node reserved for later sets, so that a set need not ask before it copies. All
/// leased slots are for pages of the same number of granules, that of the last set's pages.
/// Threads: any.
class slot_leases {
public:
  /// Takes a slot for a page of `granules` granules, if one is leased.
  bool take(std::uint32_t granules, slot_id& slot);
  /// Returns how many more slots to ask for, so that `target` are leased or on their way; these
  /// count as on their way from now on.
  std::uint32_t ask_for(std::uint32_t granules, std::uint64_t target);
  /// Takes the answer to a question for `asked` slots for pages of `granules` granules. Returns
  /// slots that are of no use, to be abandoned.
  std::vector<slot_id> add(std::uint32_t granules, std::uint32_t asked,
                           const std::vector<slot_id>& slots);

private:
  std::mutex lock_;
  std::uint32_t granules_ = 0; ///< Guarded by lock_, like all members below.
  std::uint64_t on_their_way_ = 0;
  std::vector<slot_id> slots_;
};

} // namespace peercache::client
