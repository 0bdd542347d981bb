#pragma once

#include "net/socket.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>

namespace peercache::handoff_stress {

/// Relays the connections of decode's workers to a prefill worker, and delays what prefill sends:
/// messages then take longer than pages, which have connections of their own. So decode hears of an
/// abort only after it may have read pages that have a new owner.
///
/// Threads: one of its own, which ends in the destructor. Errors: when one side of a connection
/// cannot be made or ends, the relay ends its other side.
class late_relay {
public:
  /// @param to the prefill worker's port on loopback
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
