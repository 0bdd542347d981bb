#include "common/circuit_breaker.hpp"

#include <algorithm>

namespace peercache {

bool circuit_breaker::allow(time_point now) noexcept {
  if (state_ == state::closed)
    return true;
  if (now < probe_at_)
    return false;
  // Claims the probe. Should its caller never report back, the next one may go after another pause.
  state_ = state::half_open;
  probe_at_ = now + pause_;
  return true;
}

void circuit_breaker::on_success() noexcept {
  reset();
}

void circuit_breaker::on_failure(time_point now) noexcept {
  switch (state_) {
  case state::closed:
    if (++failures_ < options_.failures_to_open)
      return;
    break;
  case state::half_open:
    pause_ = std::min(pause_ * 2, options_.pause_max);
    break;
  case state::open:
    return; // A call that went out before the breaker opened: nothing new.
  }
  state_ = state::open;
  probe_at_ = now + pause_;
  ++opened_total_;
}

void circuit_breaker::reset() noexcept {
  state_ = state::closed;
  failures_ = 0;
  pause_ = options_.pause;
}

} // namespace peercache
