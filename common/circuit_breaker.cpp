#include "common/circuit_breaker.hpp"

#include "common/assert.hpp"

#include <algorithm>

namespace peercache {

bool circuit_breaker::allow(time_point now) noexcept {
  if (state_ == state::closed)
    return true;
  if (state_ == state::recovering) {
    // After a pause, calls that were let out and have not reported their ends are forgotten.
    if (now >= probe_at_) {
      running_ = 0;
      probe_at_ = now + pause_;
    }
    PEERCACHE_ASSERT(window_ > 0 && running_ <= window_);
    if (running_ >= window_)
      return false;
    ++running_;
    return true;
  }
  if (now < probe_at_)
    return false;
  // Claims the probe for this call. When the call never reports its end, the next probe may go out
  // after another pause.
  state_ = state::half_open;
  probe_at_ = now + pause_;
  return true;
}

void circuit_breaker::on_success() noexcept {
  PEERCACHE_ASSERT(state_ == state::closed || opened_total_ > 0);
  const bool was_left_alone = state_ == state::half_open || state_ == state::open;
  if (was_left_alone && options_.slow_start_calls > 0) {
    state_ = state::recovering;
    window_ = 1;
    running_ = 0;
    return;
  }
  if (state_ == state::recovering) {
    running_ -= running_ > 0 ? 1 : 0;
    window_ *= 2;
    if (window_ <= options_.slow_start_calls)
      return;
  }
  reset();
}

void circuit_breaker::on_failure(time_point now) noexcept {
  switch (state_) {
  case state::closed:
    if (++failures_ < options_.failures_to_open)
      return;
    break;
  case state::half_open:
  case state::recovering:
    pause_ = std::min(pause_ * 2, options_.pause_max);
    break;
  case state::open:
    return; // The call went out before the breaker opened, so its failure says nothing new.
  }
  state_ = state::open;
  probe_at_ = now + pause_;
  ++opened_total_;
}

void circuit_breaker::on_nothing(time_point now) noexcept {
  if (state_ == state::recovering)
    running_ -= running_ > 0 ? 1 : 0;
  else if (state_ == state::half_open)
    probe_at_ = now;
}

void circuit_breaker::on_overdue(time_point now) noexcept {
  if (state_ != state::half_open && state_ != state::recovering)
    return;
  state_ = state::open;
  probe_at_ = now + options_.pause;
}

void circuit_breaker::reset() noexcept {
  state_ = state::closed;
  failures_ = 0;
  pause_ = options_.pause;
  window_ = running_ = 0;
}

} // namespace peercache
