#pragma once

#include "net/socket.hpp"

#include <atomic>
#include <functional>
#include <list>
#include <mutex>

namespace peercache::client {

/// Ends what the calls of a client wait for, once, when the client is closed. Threads: any.
class close_signal {
public:
  close_signal();

  bool given() const noexcept { return given_.load(std::memory_order_acquire); }
  /// Becomes readable, for who waits with `poll`; -1 when the process had no more descriptors.
  int file() const noexcept { return file_.get(); }
  /// From here on `given`; every waiter that lives has been told when this returns. Idempotent.
  void give();

  /// For as long as this lives `end_wait` is called when the signal is given, or was given before:
  /// once, by any thread, and never after the destructor.
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
  std::list<std::function<void()>> waiters_; ///< By lock_.
};

} // namespace peercache::client
