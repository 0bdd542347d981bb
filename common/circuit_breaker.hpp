#pragma once

#include <chrono>
#include <cstdint>

namespace peercache {

/// Keeps callers from asking a peer that has failed repeatedly. The states: `closed` until
/// `failures_to_open` calls in a row have failed; `open` for a pause; `half_open` with one probe at
/// a time, whose success closes the breaker and whose failure opens it again with a doubled pause,
/// up to `pause_max`. With a slow start a successful probe leads to `recovering` first, which lets
/// few calls out at a time: a peer that has just come back is not met by all calls at once. Every
/// allowed call has to report its end, exactly once; a call that never does is forgotten after
/// another pause, so it cannot keep the breaker from its probes. Pure: time is an argument.
/// Threads: none; the owner serializes.
class circuit_breaker {
public:
  using time_point = std::chrono::steady_clock::time_point;
  using duration = std::chrono::steady_clock::duration;

  struct options {
    std::uint32_t failures_to_open = 3;
    duration pause = std::chrono::milliseconds(500);
    duration pause_max = std::chrono::seconds(8);
    /// The most calls at a time that a recovering breaker lets out: it begins with one, doubles the
    /// number with each success, and closes instead of exceeding this number. 0: a successful probe
    /// closes the breaker at once.
    std::uint32_t slow_start_calls = 0;
  };

  enum class state : std::uint8_t { closed, open, half_open, recovering };

  circuit_breaker() : circuit_breaker(options{}) {}
  explicit circuit_breaker(const options& opts) : options_(opts), pause_(opts.pause) {}

  /// Whether a call may go out now. A yes in `half_open` claims the single probe.
  bool allow(time_point now) noexcept;
  /// Whether `allow` would say yes at `now`; claims no probe.
  bool would_allow(time_point now) const noexcept {
    return state_ == state::closed || now >= probe_at_ ||
           (state_ == state::recovering && running_ < window_);
  }
  void on_success() noexcept;
  void on_failure(time_point now) noexcept;
  /// Reports the end of a call that shows neither that the peer answers nor that it fails: another
  /// call may go out in its place.
  void on_nothing(time_point now) noexcept;
  /// Reports that a call was given up early because other peers have answered: the called peer may
  /// only be slow. A closed breaker stays closed. A half-open or recovering one goes back to `open`
  /// and lets the next probe out after the shortest pause, `options::pause`; the pause that the
  /// next failure doubles is unchanged.
  void on_overdue(time_point now) noexcept;
  /// Forgets all failures and closes, because the peer has a new incarnation.
  void reset() noexcept;

  state current() const noexcept { return state_; }
  std::uint64_t opened_total() const noexcept { return opened_total_; }

private:
  options options_;
  duration pause_;
  time_point probe_at_{};
  std::uint32_t failures_ = 0;
  std::uint32_t window_ = 0;  ///< Calls that may run at a time while the breaker is recovering.
  std::uint32_t running_ = 0; ///< Calls that run now while the breaker is recovering.
  std::uint64_t opened_total_ = 0;
  state state_ = state::closed;
};

} // namespace peercache
