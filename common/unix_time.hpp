#pragma once

#include <cstdint>
#include <ctime>

namespace peercache {

/// The time of day, in ms since 1970. It jumps when somebody sets the clock, so it is only for
/// people and for the comparison of two hosts' clocks; the steady clock measures durations.
/// Threads: any.
inline std::uint64_t unix_ms() noexcept {
  std::timespec now{};
  std::timespec_get(&now, TIME_UTC);
  return static_cast<std::uint64_t>(now.tv_sec) * 1000 +
         static_cast<std::uint64_t>(now.tv_nsec) / 1'000'000;
}

} // namespace peercache
