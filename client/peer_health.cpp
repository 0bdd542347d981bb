#include "client/peer_health.hpp"

#include <algorithm>

namespace peercache::client {

bool peer_health::allow(const incarnation& peer, circuit_breaker::time_point now) {
  std::lock_guard guard{lock_};
  auto found = breakers_.find(peer);
  return found == breakers_.end() || found->second.allow(now);
}

void peer_health::on_success(const incarnation& peer) {
  std::lock_guard guard{lock_};
  breakers_.erase(peer);
}

void peer_health::on_failure(const incarnation& peer, circuit_breaker::time_point now) {
  std::lock_guard guard{lock_};
  breakers_[peer].on_failure(now);
}

std::size_t peer_health::open() const {
  std::lock_guard guard{lock_};
  return static_cast<std::size_t>(
      std::count_if(breakers_.begin(), breakers_.end(), [](const auto& known) {
        return known.second.current() != circuit_breaker::state::closed;
      }));
}

} // namespace peercache::client
