#pragma once

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace peercache::stress {

/// Notices when this process gets no processor: a machine that stands still makes every call late,
/// which says nothing about the call.
///
/// Threads: one of its own, which wants to run every few milliseconds; all methods may be called
/// from any.
class stall_watch {
public:
  using clock = std::chrono::steady_clock;

  stall_watch();
  ~stall_watch();
  stall_watch(const stall_watch&) = delete;
  stall_watch& operator=(const stall_watch&) = delete;

  /// Returns how long the process stood still between `begin` and `end`. Waits a moment, so that a
  /// stall that is just ending is counted.
  clock::duration stood_still(clock::time_point begin, clock::time_point end) const;
  std::vector<std::pair<clock::time_point, clock::time_point>> all() const;
  /// Returns the length of the longest stall so far.
  clock::duration longest() const;

private:
  static constexpr std::chrono::milliseconds beat{5};
  /// Shorter pauses are usual and no stall.
  static constexpr std::chrono::milliseconds shortest{15};

  mutable std::mutex lock_; ///< Guards `stalls_`; stalls are rare.
  std::vector<std::pair<clock::time_point, clock::time_point>> stalls_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

} // namespace peercache::stress
