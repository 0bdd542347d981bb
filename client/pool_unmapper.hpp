#pragma once

#include "client/own_pool.hpp"

#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

namespace peercache::client {

/// Ends pools that nobody uses any more, on a thread of its own: to unmap 64 GiB takes two seconds,
/// and the last one who lets go of a pool is a call with a deadline, or a thread of the scheduler.
///
/// Threads: `run` in one thread, once; all else from any. Ownership: of the pools that it has
/// taken; what comes after `run` has returned ends at once, on the thread that brings it.
class pool_unmapper {
public:
  /// A pool that is handed to `unmapper` when its last user has gone.
  static own_pool_ptr share(std::unique_ptr<own_pool> pool,
                            const std::shared_ptr<pool_unmapper>& unmapper);

  /// Ends what comes until `stop`, and what has come by then.
  void run();
  void stop() noexcept;

private:
  void take(std::unique_ptr<own_pool> pool);

  std::mutex lock_;
  std::condition_variable changed_;
  std::vector<std::unique_ptr<own_pool>> gone_; ///< By lock_.
  bool stop_ = false;                           ///< By lock_.
  bool ended_ = false;                          ///< By lock_; `run` has returned.
};

} // namespace peercache::client
