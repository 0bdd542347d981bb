#pragma once

#include "client/c/failure.hpp"
#include "client/c/peercache.h"
#include "client/cache_client.hpp"
#include "client/started_calls.hpp"
#include "common/forks.hpp"
#include "common/page_key.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>

/// What the opaque handle of a client stands for. Threads: any.
struct peercache_client {
  /// The client; a client of peercache_embed owns its node too, which ends with the client.
  std::shared_ptr<peercache::client::cache_client> cache;
  std::chrono::milliseconds default_timeout{};
  peercache::home_process home;
  std::atomic<bool> closed{false}; ///< Whether `peercache_close` was called.
  /// The started calls. Destroyed before `cache`, which running calls use.
  std::unique_ptr<peercache::client::started_calls> calls;
};

/// What the opaque handle of a space stands for. Immutable; any thread.
struct peercache_space {
  peercache::key_space keys;
};

namespace peercache::c_api {

/// How far a started call has come; shared by its handle and the thread that makes it. Threads:
/// any.
class call_state {
public:
  /// Tells waiting threads that the results are written and the callback has returned.
  void complete(int code);
  /// Tells waiting threads that nothing of the call touches the caller's memory from now on.
  void leave();
  /// Waits until the call is complete. Returns its code, or PEERCACHE_RUNNING.
  int wait_complete(std::chrono::milliseconds at_most);
  void wait_left();

private:
  std::mutex lock_; ///< Guards `code_` and `left_`, which the thread that makes the call sets and
                    ///< other threads wait for.
  std::condition_variable changed_;
  int code_ = PEERCACHE_RUNNING;
  bool left_ = false;
};

/// Refuses a client that is NULL. Returns PEERCACHE_OK, or the code of the fault.
inline int check_client(const peercache_client* client) noexcept {
  return client == nullptr ? refuse_argument("client", " is NULL") : PEERCACHE_OK;
}

} // namespace peercache::c_api

/// What the opaque handle of a started call stands for. Threads: any.
struct peercache_call {
  std::shared_ptr<peercache::c_api::call_state> state;
  peercache::home_process home;
};
