#pragma once

#include "client/handoff/loop_spin.hpp"
#include "handoff/links/worker_links.hpp"

#include <atomic>
#include <chrono>
#include <mutex>
#include <utility>

namespace peercache::client {

/// The loop of a worker's thread: takes what its connections have brought, lets the worker do its
/// turn with it, and sleeps when nothing moves, until `stop` is set. A thread that sets `stop`
/// wakes the links afterwards.
/// @param at_work held while the loop is awake, so that other threads may send while it sleeps;
/// null: no other thread uses the links
/// @param turn called with the events and the time; returns whether something moved
template <class Turn>
void run_links(handoff::worker_links& links, const std::atomic<bool>& stop, std::mutex* at_work,
               Turn&& turn) {
  using std::chrono::steady_clock;
  // The answer to a message just sent is near: to sleep would cost more than to wait for it awake.
  const auto spin = loop_spin(own_processors(), std::chrono::microseconds(50));
  constexpr auto sleep_max = std::chrono::milliseconds(100);
  auto lock = at_work != nullptr ? std::unique_lock(*at_work) : std::unique_lock<std::mutex>();
  auto moved_at = steady_clock::now();
  while (!stop.load(std::memory_order_acquire)) {
    const auto now = steady_clock::now();
    if (turn(links.poll(now), now)) {
      moved_at = now;
    } else if (at_work != nullptr) {
      const auto sleep = links.sleep_time(now, sleep_max);
      lock.unlock();
      links.sleep(sleep);
      lock.lock();
    } else if (now - moved_at >= spin) {
      links.wait(now, sleep_max);
    }
  }
}

} // namespace peercache::client
