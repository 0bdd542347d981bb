#pragma once

#include <chrono>

namespace peercache {

/// The next time after `now` at which beats of this period come: a multiple of it, as the clock
/// counts. All processes of a host count by the same clock, so whatever beats there beats together:
/// each process wakes once for all of its beats, and for what the others send with theirs.
/// @pre period > 0
inline std::chrono::steady_clock::time_point
next_beat(std::chrono::steady_clock::time_point now,
          std::chrono::steady_clock::duration period) noexcept {
  const auto since = now.time_since_epoch();
  return std::chrono::steady_clock::time_point(since - since % period + period);
}

} // namespace peercache
