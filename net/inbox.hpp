#pragma once

#include "net/socket.hpp"

#include <atomic>
#include <mutex>
#include <utility>
#include <vector>

namespace peercache::net {

/// Things on their way from other threads to the thread of a server, which an `event_poll` wakes.
/// This object may outlive the server; what is pushed then is freed. Threads: any; `close` by the
/// server's owner. Limits: none of its own; the server's next poll takes all that waits.
template <class Thing>
class inbox {
public:
  /// @param server woken by what is pushed, until `close`
  explicit inbox(const event_poll& server) : server_(&server) {}

  void push(Thing thing) {
    const std::lock_guard guard(lock_);
    if (server_ == nullptr)
      return;
    waiting_.push_back(std::move(thing));
    has_some_.store(true, std::memory_order_release);
    server_->wake();
  }
  std::vector<Thing> take() {
    if (!has_some_.load(std::memory_order_acquire))
      return {};
    const std::lock_guard guard(lock_);
    has_some_.store(false, std::memory_order_release);
    return std::exchange(waiting_, {});
  }
  void close() {
    const std::lock_guard guard(lock_);
    server_ = nullptr;
    waiting_.clear();
  }

private:
  std::atomic<bool> has_some_{false};
  std::mutex lock_; ///< Guards `server_` and `waiting_`.
  const event_poll* server_;
  std::vector<Thing> waiting_;
};

} // namespace peercache::net
