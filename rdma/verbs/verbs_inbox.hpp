#pragma once

#include "net/stream_socket.hpp"
#include "rdma/verbs/verbs_protocol.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <deque>
#include <mutex>
#include <vector>

namespace peercache::rdma {

/// A connection on which a reader has said the hello `greeting`.
struct verbs_arrival {
  net::stream_socket socket;
  verbs_hello greeting;
  std::chrono::steady_clock::time_point came_at; ///< When the connection was accepted.
};

/// A queue of connections from the thread that accepts them to the thread of their rail, in order.
/// Threads: any. The mutex is taken once per connection; a thread that finds the inbox empty does
/// not take it.
class verbs_inbox {
public:
  explicit verbs_inbox(std::size_t arrivals_max) : arrivals_max_(arrivals_max) {}

  /// Puts a connection into the inbox. False when the inbox is full: the arrival stays the
  /// caller's.
  bool push(verbs_arrival& arrival);
  /// Takes the oldest connections out, at most `at_most`.
  std::vector<verbs_arrival> take(std::size_t at_most);
  bool empty() const noexcept { return !has_some_.load(std::memory_order_acquire); }

private:
  const std::size_t arrivals_max_;
  std::atomic<bool> has_some_{false};
  std::mutex mutex_; ///< Guards `waiting_`.
  std::deque<verbs_arrival> waiting_;
};

} // namespace peercache::rdma
