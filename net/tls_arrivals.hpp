#pragma once

#include "net/socket.hpp"
#include "net/stream_socket.hpp"

#include <atomic>
#include <chrono>
#include <mutex>
#include <utility>
#include <vector>

namespace peercache::net {

/// Connections whose handshake of TLS is over, on their way from the thread that shook hands to the
/// server of their port. This object may outlive the server while a handshake goes on; connections
/// that arrive then are closed. Threads: any; `close` by the server's owner. Limits: those of
/// `tls_handshakes`; the server's next poll takes all that wait.
class tls_arrivals {
public:
  struct arrival {
    stream_socket socket;
    std::chrono::steady_clock::time_point came_at; ///< When the connection was accepted.
  };

  /// @param server woken by what arrives, until `close`
  explicit tls_arrivals(const event_poll& server) : server_(&server) {}

  void push(stream_socket socket, std::chrono::steady_clock::time_point came_at) {
    const std::lock_guard guard(lock_);
    if (server_ == nullptr)
      return;
    waiting_.push_back({std::move(socket), came_at});
    has_some_.store(true, std::memory_order_release);
    server_->wake();
  }
  std::vector<arrival> take() {
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
  std::mutex lock_; ///< Guards `server_` and `waiting_`; taken once for each connection.
  const event_poll* server_;
  std::vector<arrival> waiting_;
};

} // namespace peercache::net
