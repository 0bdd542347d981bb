#pragma once

#include "common/circuit_breaker.hpp"
#include "common/ids.hpp"

#include <mutex>
#include <unordered_map>

namespace peercache::client {

/// One circuit breaker per peer for directory look-ups (the data plane has its own, for reads).
/// Threads: any.
class peer_health {
public:
  bool allow(const incarnation& peer, circuit_breaker::time_point now);
  void on_success(const incarnation& peer);
  void on_failure(const incarnation& peer, circuit_breaker::time_point now);
  std::size_t open() const;

private:
  mutable std::mutex lock_;
  std::unordered_map<incarnation, circuit_breaker> breakers_; ///< By lock_; only peers that failed.
};

} // namespace peercache::client
