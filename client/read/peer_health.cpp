#include "client/read/peer_health.hpp"

#include <algorithm>

namespace peercache::client {

bool peer_health::allow(const incarnation& peer, circuit_breaker::time_point now) {
  std::lock_guard guard{lock_};
  auto found = breakers_.find(peer);
  return found == breakers_.end() || found->second.allow(now);
}

void peer_health::on_success(const incarnation& peer) {
  std::lock_guard guard{lock_};
  silences_.erase(peer);
  auto found = breakers_.find(peer);
  if (found == breakers_.end())
    return;
  found->second.on_success();
  if (found->second.current() == circuit_breaker::state::closed)
    breakers_.erase(found);
}

void peer_health::on_failure(const incarnation& peer, circuit_breaker::time_point now) {
  std::lock_guard guard{lock_};
  fail(peer, now);
}

void peer_health::on_nothing(const incarnation& peer, circuit_breaker::time_point now) {
  std::lock_guard guard{lock_};
  if (const auto known = breakers_.find(peer); known != breakers_.end())
    known->second.on_nothing(now);
}

void peer_health::on_silence(const incarnation& peer, circuit_breaker::time_point asked_at,
                             circuit_breaker::time_point now) {
  std::lock_guard guard{lock_};
  auto& its = silences_.try_emplace(peer, silence{asked_at, now}).first->second;
  its.noted = now;
  const auto known = breakers_.find(peer);
  if (known != breakers_.end() && known->second.current() != circuit_breaker::state::closed)
    known->second.on_overdue(now);
  else if (now - its.since >= silence_max)
    fail(peer, now);
}

/// Counts a failure of the peer. @pre lock_ is held
void peer_health::fail(const incarnation& peer, circuit_breaker::time_point now) {
  circuit_breaker::options options;
  options.slow_start_calls = slow_start_calls;
  breakers_.try_emplace(peer, options).first->second.on_failure(now);
}

void peer_health::follow(const discovery::view& view) {
  std::lock_guard guard{lock_};
  const auto is_gone = [&](const auto& known) { return view.find(known.first) == nullptr; };
  std::erase_if(breakers_, is_gone);
  std::erase_if(silences_, is_gone);
}

bool peer_health::is_silent(const incarnation& peer, circuit_breaker::time_point now) const {
  std::lock_guard guard{lock_};
  const auto found = silences_.find(peer);
  return found != silences_.end() && now - found->second.noted < doubt_lasts;
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
