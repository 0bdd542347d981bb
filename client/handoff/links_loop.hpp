#pragma once

#include "handoff/links/worker_links.hpp"

#include <atomic>
#include <chrono>
#include <utility>

namespace peercache::client {

/// The loop of a worker's thread: takes what its connections have brought, lets the worker do its
/// turn with it, and sleeps when nothing moves, until `stop` is set. Whoever sets `stop` wakes the
/// links after it.
/// @param turn called with the events and the time; returns whether something moved
template <class Turn>
void run_links(handoff::worker_links& links, const std::atomic<bool>& stop, Turn&& turn) {
  using std::chrono::steady_clock;
  // The answer to what was sent is near: a sleep would cost more than it takes.
  constexpr auto spin = std::chrono::microseconds(50);
  constexpr auto sleep_max = std::chrono::milliseconds(100);
  auto moved_at = steady_clock::now();
  while (!stop.load(std::memory_order_acquire)) {
    const auto now = steady_clock::now();
    if (turn(links.poll(now), now))
      moved_at = now;
    else if (now - moved_at > spin)
      links.wait(now, sleep_max);
  }
}

} // namespace peercache::client
