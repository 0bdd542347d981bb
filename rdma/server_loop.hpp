#pragma once

#include "rdma/data_plane.hpp"

#include <atomic>
#include <chrono>

namespace peercache::rdma {

/// How long a server's thread goes on polling after something has moved, before it sleeps: the next
/// request of a batch is near.
inline constexpr auto server_spin = std::chrono::microseconds(20);
/// The longest sleep of a server's thread while something has moved within this time.
inline constexpr clock::duration server_sleep_max = std::chrono::milliseconds(100);
/// The longest sleep otherwise. An event or a wake-up ends a sleep earlier, and a server with
/// sessions sleeps no longer than its sessions need.
inline constexpr clock::duration server_rest_max = std::chrono::seconds(1);

/// The loop of a server's thread (`tcp_page_server`, `verbs_rail_server`): polls, and sleeps when
/// nothing has moved for `spin`, until `stop` is set. A thread that sets `stop` wakes the server
/// afterwards.
/// @param each_turn called with the time of each turn, before it sleeps; also `server_sleep_max`
/// after something has moved, when nothing moves any longer, and every `rest_max` later
template <class Server, class EachTurn>
void run_server(Server& server, const std::atomic<bool>& stop, EachTurn&& each_turn,
                clock::duration spin = server_spin, clock::duration rest_max = server_rest_max) {
  auto moved_at = clock::now();
  while (!stop.load(std::memory_order_acquire)) {
    const auto now = clock::now();
    const bool moved = server.poll(now);
    each_turn(now);
    if (moved)
      moved_at = now;
    else if (now - moved_at >= spin)
      server.wait(now - moved_at < server_sleep_max ? server_sleep_max : rest_max);
  }
}

} // namespace peercache::rdma
