#pragma once

#include "stress/stall_watch.hpp"
#include "stress/thread_times.hpp"

#include <algorithm>
#include <chrono>

namespace peercache::real {

/// Measures how long after its deadline one call of this thread returns. The call begins when this
/// object is made. Threads: only the thread that made it.
class late_watch {
public:
  using clock = std::chrono::steady_clock;

  explicit late_watch(const stress::stall_watch& stalls)
      : stalls_(stalls), waited_before_(stress::thread_times::now().waited), begin_(clock::now()) {}

  clock::time_point begin() const { return begin_; }

  /// Returns by how many milliseconds the call, which ends now, is behind `until`: negative when it
  /// is early. If it is late by more than `grace`, the longer of two times is subtracted: the time
  /// in which the thread waited for a processor, and that in which the whole process stood still.
  /// Not both, because they mostly coincide.
  double behind_ms(clock::time_point until, std::chrono::milliseconds grace) const {
    const auto end = clock::now();
    const clock::duration waited = stress::thread_times::now().waited - waited_before_;
    auto behind = end - until;
    if (behind > grace)
      behind -= std::max(waited, stalls_.stood_still(begin_, end));
    return std::chrono::duration<double, std::milli>(behind).count();
  }

private:
  const stress::stall_watch& stalls_;
  const std::chrono::nanoseconds waited_before_;
  const clock::time_point begin_;
};

} // namespace peercache::real
