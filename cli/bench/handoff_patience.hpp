#pragma once

#include "bench/sample_statistics.hpp"

#include <algorithm>
#include <chrono>
#include <sys/prctl.h>
#include <thread>

namespace peercache::cli {

/// Calls `holds` again and again, as an engine's scheduler does, until it returns true; false when
/// a minute has passed. There are pauses between two calls, of microseconds at first: an engine's
/// scheduler has a processor of its own, but here the workers' threads would have to wait for a
/// thread that never pauses.
template <class Holds>
bool until(Holds&& holds) {
  constexpr auto short_pauses = std::chrono::milliseconds(1);
  constexpr auto patience = std::chrono::seconds(60);
  // With the default slack the kernel would stretch a sleep of one microsecond to fifty.
  ::prctl(PR_SET_TIMERSLACK, 1);
  const auto begin = bench::clock::now();
  while (!holds()) {
    const auto waited = bench::clock::now() - begin;
    if (waited > patience)
      return false;
    std::this_thread::sleep_for(std::chrono::microseconds(waited < short_pauses ? 1 : 50));
  }
  return true;
}

/// Waits, as `until`, until `holds` is true for each of the rooms; each pause is one for all rooms,
/// because an engine's scheduler looks at all of them in one turn.
template <class Rooms, class Holds>
bool until_all(const Rooms& rooms, Holds&& holds) {
  auto next = rooms.begin();
  return until([&] {
    next = std::find_if_not(next, rooms.end(), holds);
    return next == rooms.end();
  });
}

} // namespace peercache::cli
