#pragma once

#include "common/circuit_breaker.hpp"
#include "common/ids.hpp"
#include "discovery/view.hpp"

#include <mutex>
#include <unordered_map>

namespace peercache::client {

/// One circuit breaker per peer for directory look-ups (the data plane has its own, for reads).
/// Threads: any. Bound: peers of the view that is followed.
class peer_health {
public:
  /// After a probe that succeeds, the calls at a time that a peer gets double up to this number;
  /// then the breaker closes.
  static constexpr std::uint32_t slow_start_calls = 8;

  bool allow(const incarnation& peer, circuit_breaker::time_point now);
  /// Whether `allow` would say no; changes nothing.
  bool is_left_alone(const incarnation& peer, circuit_breaker::time_point now) const;
  void on_success(const incarnation& peer);
  void on_failure(const incarnation& peer, circuit_breaker::time_point now);
  /// Forgets who is not in this view: nobody asks it any more, so it would be left alone for ever.
  void follow(const discovery::view& view);
  std::size_t open() const;

private:
  mutable std::mutex lock_;
  /// Guarded by lock_. Has an entry only for peers that failed.
  std::unordered_map<incarnation, circuit_breaker> breakers_;
};

} // namespace peercache::client
