#pragma once

#include "common/circuit_breaker.hpp"
#include "common/ids.hpp"
#include "discovery/view.hpp"

#include <chrono>
#include <mutex>
#include <unordered_map>

namespace peercache::client {

/// One circuit breaker per peer, for directory look-ups or for holds (the data plane has its own,
/// for reads).
/// Threads: any. Bound: peers of the view that is followed.
class peer_health {
public:
  /// Slow start: after a probe that succeeds, the number of calls that a peer may get at a time
  /// doubles again and again; at this number the breaker closes.
  static constexpr std::uint32_t slow_start_calls = 8;

  /// Once a peer has answered nothing for this long, each question that it leaves unanswered counts
  /// as a failure.
  static constexpr std::chrono::milliseconds silence_max{250};
  /// How long a peer is doubted after it has left a question unanswered.
  static constexpr std::chrono::seconds doubt_lasts{1};

  bool allow(const incarnation& peer, circuit_breaker::time_point now);
  void on_success(const incarnation& peer);
  void on_failure(const incarnation& peer, circuit_breaker::time_point now);
  /// Forgets peers that are not in this view: without calls their breakers would stay open for
  /// ever.
  void follow(const discovery::view& view);
  /// Notes the end of a call that says nothing of the peer: other peers have answered first, or the
  /// client is closing. Another call may be sent in its place.
  void on_nothing(const incarnation& peer, circuit_breaker::time_point now);
  /// Notes that a question asked at `asked_at` has no answer and is no longer waited for. One such
  /// question does not count as a failure, for the peer may only be slow. If the call was the
  /// breaker's probe of the peer, the next probe may follow after the breaker's first pause.
  void on_silence(const incarnation& peer, circuit_breaker::time_point asked_at,
                  circuit_breaker::time_point now);
  /// Whether the peer has left a question unanswered lately, and has answered none since.
  bool is_silent(const incarnation& peer, circuit_breaker::time_point now) const;
  std::size_t open() const;

private:
  void fail(const incarnation& peer, circuit_breaker::time_point now);

  mutable std::mutex lock_;
  /// Guarded by lock_. Has an entry only for peers that failed.
  std::unordered_map<incarnation, circuit_breaker> breakers_;
  /// The questions that a peer has left unanswered since its last answer.
  struct silence {
    circuit_breaker::time_point since; ///< When the first of these questions was asked.
    circuit_breaker::time_point noted; ///< When the last of these questions was given up.
  };
  std::unordered_map<incarnation, silence> silences_; ///< Guarded by lock_.
};

} // namespace peercache::client
