#pragma once

#include "client/cache_client.hpp"
#include "common/forks.hpp"

#include <chrono>
#include <memory>

namespace peercache::python {

/// Holds a client that calls borrow. The client ends when the gate is closed and the last call has
/// given it back. In a forked child the gate is closed, and the client stays the parent's. Threads:
/// any.
class cache_gate {
public:
  explicit cache_gate(std::shared_ptr<client::cache_client> cache);
  ~cache_gate();
  cache_gate(const cache_gate&) = delete;
  cache_gate& operator=(const cache_gate&) = delete;

  /// The client for the duration of one call; empty once the gate is closed.
  class loan {
  public:
    explicit loan(cache_gate& from);
    ~loan();
    loan(const loan&) = delete;
    loan& operator=(const loan&) = delete;

    explicit operator bool() const noexcept { return cache_ != nullptr; }
    client::cache_client& operator*() const noexcept { return *cache_; }
    client::cache_client* operator->() const noexcept { return cache_.get(); }

  private:
    cache_gate& from_;
    std::shared_ptr<client::cache_client> cache_;
  };

  bool is_open() const noexcept;

  /// Gives no new loans from now on, and makes running calls end soon. Does not wait for them.
  void shut();
  /// Calls `shut`, waits for the loans that are out, until `until` at the latest, and lets go of
  /// the client. The client ends here, or with the last call that still has a loan of it.
  void close(std::chrono::steady_clock::time_point until);

private:
  struct shared;
  std::unique_ptr<shared> shared_;
  const home_process home_;
};

} // namespace peercache::python
