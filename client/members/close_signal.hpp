#pragma once

#include "common/interruption.hpp"
#include "net/socket.hpp"

#include <atomic>
#include <functional>
#include <list>
#include <mutex>

namespace peercache::client {

/// Ends the waits of a client's calls, once, when the client is closed. Threads: any.
class close_signal {
public:
  close_signal();

  /// Whether the calls of this thread have to end: the signal was given, or the thread has been
  /// interrupted (common/interruption.hpp).
  bool given() const noexcept {
    return given_.load(std::memory_order_acquire) || interruption::given();
  }
  /// Returns a file that becomes readable with the signal, for `poll`; -1 when the process had no
  /// descriptor left.
  int file() const noexcept { return file_.get(); }
  /// Gives the signal. Every living waiter has been told when this returns. Idempotent.
  void give();

  /// Calls `end_wait` once, when the signal is given or if it was given before: in any thread, and
  /// never after the waiter's destructor.
  class waiter {
  public:
    waiter(close_signal& signal, std::function<void()> end_wait);
    ~waiter();
    waiter(const waiter&) = delete;
    waiter& operator=(const waiter&) = delete;

  private:
    close_signal& signal_;
    std::list<std::function<void()>>::iterator place_;
  };

private:
  std::atomic<bool> given_{false};
  net::unique_fd file_;
  std::mutex lock_;
  std::list<std::function<void()>> waiters_; ///< Guarded by lock_.
};

} // namespace peercache::client
