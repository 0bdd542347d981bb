#pragma once

#include "client/pool/own_pool.hpp"

#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

namespace peercache::client {

/// Unmaps unused pools, on a thread of its own: to unmap 64 GiB takes two seconds, and the last
/// user of a pool is a call with a deadline, or a thread of the scheduler.
///
/// Threads: `run` in one thread, once; the rest from any. Ownership: owns the pools that it has
/// taken. A pool that comes after `run` has returned ends at once, on the thread that brings it.
class pool_unmapper {
public:
  /// Makes a shared pool that is handed to `unmapper` when its last user has gone.
  static own_pool_ptr share(std::unique_ptr<own_pool> pool,
                            const std::shared_ptr<pool_unmapper>& unmapper);

  /// Unmaps pools until `stop`, and then the pools that have come by then.
  void run();
  void stop() noexcept;

private:
  void take(std::unique_ptr<own_pool> pool);

  std::mutex lock_;
  std::condition_variable changed_;
  std::vector<std::unique_ptr<own_pool>> gone_; ///< Guarded by lock_.
  bool stop_ = false;                           ///< Guarded by lock_.
  bool ended_ = false;                          ///< Guarded by lock_. Whether `run` has returned.
};

} // namespace peercache::client
