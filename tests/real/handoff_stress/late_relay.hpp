#pragma once

#include "net/socket.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>

namespace peercache::handoff_stress {

/// Stands between decode's workers and a prefill worker, and brings what prefill says later than it
/// was said: a network on which the messages take longer than the pages, which have connections of
/// their own. An abort then comes when pages that have another owner were read.
///
/// Threads: one of its own, which ends in the destructor. Errors: a connection that cannot be made
/// or has ended ends on both sides.
class late_relay {
public:
  /// @param to port on loopback of the prefill worker
  late_relay(std::uint16_t to, std::chrono::milliseconds later);
  ~late_relay();
  late_relay(const late_relay&) = delete;
  late_relay& operator=(const late_relay&) = delete;

  /// The port to which decode connects instead of prefill's.
  std::uint16_t port() const { return net::local_port(listener_); }

private:
  class connection;
  void run();

  const std::uint16_t to_;
  const std::chrono::milliseconds later_;
  const net::unique_fd listener_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

} // namespace peercache::handoff_stress
