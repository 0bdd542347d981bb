#pragma once

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace peercache::stress {

/// Notices times in which this process gets no processor (stalls), because calls that are late by
/// them are not the product's fault.
///
/// Threads: one of its own, which tries to run every few milliseconds; all methods may be called
/// from any thread.
class stall_watch {
public:
  using clock = std::chrono::steady_clock;

  stall_watch();
  ~stall_watch();
  stall_watch(const stall_watch&) = delete;
  stall_watch& operator=(const stall_watch&) = delete;

  /// Returns how long the process stood still between `begin` and `end`. Waits a moment first, so
  /// that a stall which is just ending is counted.
  clock::duration stood_still(clock::time_point begin, clock::time_point end) const;
  std::vector<std::pair<clock::time_point, clock::time_point>> all() const;
  /// Returns the length of the longest stall so far.
  clock::duration longest() const;

private:
  static constexpr std::chrono::milliseconds beat{5};
  /// Pauses that are shorter are usual and do not count as stalls.
  static constexpr std::chrono::milliseconds shortest{15};

  mutable std::mutex lock_; ///< Guards `stalls_`; stalls are rare.
  std::vector<std::pair<clock::time_point, clock::time_point>> stalls_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

} // namespace peercache::stress
