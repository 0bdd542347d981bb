#include "client/peer_health.hpp"

#include <algorithm>

namespace peercache::client {

bool peer_health::allow(const incarnation& peer, circuit_breaker::time_point now) {
  std::lock_guard guard{lock_};
  auto found = breakers_.find(peer);
  return found == breakers_.end() || found->second.allow(now);
}

bool peer_health::is_left_alone(const incarnation& peer, circuit_breaker::time_point now) const {
  std::lock_guard guard{lock_};
  auto found = breakers_.find(peer);
  return found != breakers_.end() && !found->second.would_allow(now);
}

void peer_health::on_success(const incarnation& peer) {
  std::lock_guard guard{lock_};
  auto found = breakers_.find(peer);
  if (found == breakers_.end())
    return;
  found->second.on_success();
  if (found->second.current() == circuit_breaker::state::closed)
    breakers_.erase(found);
}

void peer_health::on_failure(const incarnation& peer, circuit_breaker::time_point now) {
  std::lock_guard guard{lock_};
  circuit_breaker::options options;
  options.slow_start_calls = slow_start_calls;
  breakers_.try_emplace(peer, options).first->second.on_failure(now);
}

void peer_health::follow(const discovery::view& view) {
  std::lock_guard guard{lock_};
  std::erase_if(breakers_, [&](const auto& known) { return view.find(known.first) == nullptr; });
}

std::size_t peer_health::open() const {
  std::lock_guard guard{lock_};
  return static_cast<std::size_t>(
      std::count_if(breakers_.begin(), breakers_.end(), [](const auto& known) {
        return known.second.current() == circuit_breaker::state::open ||
               known.second.current() == circuit_breaker::state::half_open;
      }));
}

} // namespace peercache::client
