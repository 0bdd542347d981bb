#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace peercache::client {

/// The threads that make the calls of peercache_start, or the calls of `async_calls`, whose outcome
/// is a future. Each running call has a thread at once, so that it ends by its deadline whatever
/// other calls wait for; threads are made as needed and kept for later calls.
///
/// Threads: any. Destruction: waits until all calls have returned; not by one of these threads, and
/// not in a forked child, where these threads do not exist.
class started_calls {
public:
  explicit started_calls(std::uint32_t running_max) : running_max_(running_max) {}
  ~started_calls();
  started_calls(const started_calls&) = delete;
  started_calls& operator=(const started_calls&) = delete;

  /// Begins the call in a thread of its own, and then runs `tell` in that thread: the call no
  /// longer counts as running, so `tell` may begin the next one. Returns false when `running_max`
  /// calls are running, or the system has no thread.
  bool begin(
      std::function<void()> call, std::function<void()> tell = [] {});

  /// Whether the calling thread is one of those that make calls.
  bool is_caller() const;

private:
  void work();
  bool add_thread();

  /// Guards all members but `running_max_`: calls are begun by any thread, and end in `threads_`.
  mutable std::mutex lock_;
  std::condition_variable changed_;
  struct begun_call {
    std::function<void()> call;
    std::function<void()> tell;
  };
  std::deque<begun_call> begun_; ///< Calls that no thread has taken yet.
  std::vector<std::thread> threads_;
  std::size_t running_ = 0; ///< Calls that have begun and not returned. At most as many as threads.
  bool ending_ = false;
  const std::uint32_t running_max_;
};

} // namespace peercache::client
