#pragma once

#include "client/cache_client.hpp"
#include "common/forks.hpp"

#include <chrono>
#include <memory>

namespace peercache::python {

/// A client that calls borrow, and that ends when it is closed and the last of them has given it
/// back. In a child that was forked since it is closed, and stays the parent's. Threads: any.
class cache_gate {
public:
  explicit cache_gate(std::shared_ptr<client::cache_client> cache);
  ~cache_gate();
  cache_gate(const cache_gate&) = delete;
  cache_gate& operator=(const cache_gate&) = delete;

  /// The client for one call; of no client, once it is closed.
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

  /// Gives no new loans, and makes calls that run end soon. Does not wait.
  void shut();
  /// Shuts, waits for the loans that are out, at most until then, and ends the client, unless a
  /// call still has it: that ends it then.
  void close(std::chrono::steady_clock::time_point until);

private:
  struct shared;
  std::unique_ptr<shared> shared_;
  const home_process home_;
};

} // namespace peercache::python
