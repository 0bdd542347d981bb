#pragma once

#include "net/socket.hpp"
#include "rdma/verbs/verbs_protocol.hpp"

#include <atomic>
#include <cstddef>
#include <deque>
#include <mutex>
#include <vector>

namespace peercache::rdma {

/// A connection whose reader has said `greeting`.
struct verbs_arrival {
  net::unique_fd socket;
  verbs_hello greeting;
};

/// How connections come from the thread that accepts them to the one of their rail, in order.
/// Threads: any. The mutex is taken once per connection; whoever finds nothing does not take it.
class verbs_inbox {
public:
  explicit verbs_inbox(std::size_t arrivals_max) : arrivals_max_(arrivals_max) {}

  /// Takes the socket, or leaves it where it is when there is no room.
  bool push(net::unique_fd& socket, const verbs_hello& greeting);
  /// The oldest ones, at most so many.
  std::vector<verbs_arrival> take(std::size_t at_most);
  bool empty() const noexcept { return !has_some_.load(std::memory_order_acquire); }

private:
  const std::size_t arrivals_max_;
  std::atomic<bool> has_some_{false};
  std::mutex mutex_; ///< Guards `waiting_`.
  std::deque<verbs_arrival> waiting_;
};

} // namespace peercache::rdma
