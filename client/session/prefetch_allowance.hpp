#pragma once

#include "common/assert.hpp"

#include <atomic>
#include <cstdint>

namespace peercache::client {

/// How many keys of prefetches may be under way at a time, from the call until the owners have
/// answered. A caller that asks for more than nodes can answer would fill the mailbox of the
/// session's actor, where requests of sets and of the client's close would have to wait. Threads:
/// any.
class prefetch_allowance {
public:
  /// Four of the largest batches: some tens of milliseconds of the session's time.
  static constexpr std::uint32_t keys_max = 32'768;

  /// Reserves the right to ask for `count` keys; false when too many are under way.
  bool take(std::uint32_t count) noexcept {
    if (under_way_.fetch_add(count, std::memory_order_relaxed) + count <= keys_max)
      return true;
    give_back(count);
    return false;
  }
  /// @pre `take` gave leave for as many keys
  void give_back(std::uint32_t count) noexcept {
    const auto before = under_way_.fetch_sub(count, std::memory_order_relaxed);
    PEERCACHE_ASSERT(before >= count);
  }
  std::uint32_t under_way() const noexcept { return under_way_.load(std::memory_order_relaxed); }

private:
  std::atomic<std::uint32_t> under_way_{0};
};

} // namespace peercache::client
