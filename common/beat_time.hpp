#pragma once

#include <chrono>

namespace peercache {

/// The next time after `now` at which beats of this period come: a multiple of it, as the clock
/// counts. All processes of a host count by the same clock, so their beats come together: each
/// process wakes once for all of its own beats and for the messages that beats of other processes
/// send. @pre period > 0
inline std::chrono::steady_clock::time_point
next_beat(std::chrono::steady_clock::time_point now,
          std::chrono::steady_clock::duration period) noexcept {
  const auto since = now.time_since_epoch();
  return std::chrono::steady_clock::time_point(since - since % period + period);
}

} // namespace peercache
