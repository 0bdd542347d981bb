#pragma once

#include <chrono>

namespace peercache::client {

/// Most threads of a room that are on one machine, each of which waits for another: both engines'
/// own, decode's worker, and prefill's page server.
inline constexpr unsigned room_threads = 4;

/// How long a loop of a worker goes on polling after something has moved, before it sleeps. Where
/// these threads have no processor each, the one that is waited for may be kept waiting for the one
/// that spins: there a loop sleeps at once.
/// @param processors those that this process may run on
constexpr std::chrono::microseconds loop_spin(unsigned processors,
                                              std::chrono::microseconds where_it_helps) noexcept {
  return processors >= room_threads ? where_it_helps : std::chrono::microseconds(0);
}

/// How many processors this process may run on; 1 when the kernel does not say. Threads: any.
unsigned own_processors() noexcept;

} // namespace peercache::client
