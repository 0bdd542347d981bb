#pragma once

#include <chrono>

namespace peercache::client {

/// Most threads of a room that run on one machine, each of which waits for another of them: both
/// engines' own, decode's worker, and prefill's page server.
inline constexpr unsigned room_threads = 4;

/// How long a worker's loop goes on polling after something has moved, before it sleeps. With fewer
/// processors than `room_threads`, a spinning thread may keep the thread that it waits for from
/// running: there a loop sleeps at once.
/// @param processors number of processors that this process may run on
constexpr std::chrono::microseconds loop_spin(unsigned processors,
                                              std::chrono::microseconds where_it_helps) noexcept {
  return processors >= room_threads ? where_it_helps : std::chrono::microseconds(0);
}

/// How many processors this process may run on; 1 when the kernel does not say. Threads: any.
unsigned own_processors() noexcept;

} // namespace peercache::client
