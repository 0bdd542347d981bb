#include "python/cache_gate.hpp"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <utility>

namespace peercache::python {

struct cache_gate::shared {
  std::mutex lock;
  std::condition_variable returned;
  std::shared_ptr<client::cache_client> cache; ///< The open client; by lock; null once shut.
  /// The client from `shut` to the end of `close`; by lock.
  std::shared_ptr<client::cache_client> last;
  int loans = 0;                ///< Calls that use the client; by lock.
  std::atomic<bool> open{true}; ///< Written by lock.
};

cache_gate::cache_gate(std::shared_ptr<client::cache_client> cache)
    : shared_(std::make_unique<shared>()) {
  shared_->cache = std::move(cache);
}

cache_gate::~cache_gate() {
  if (!home_.is_here()) // In the parent somebody may wait at the condition: here that would never
                        // end.
    (void)shared_.release();
}

bool cache_gate::is_open() const noexcept {
  return home_.is_here() && shared_->open.load();
}

void cache_gate::shut() {
  if (!home_.is_here())
    return;
  std::shared_ptr<client::cache_client> last;
  {
    std::lock_guard guard{shared_->lock};
    shared_->open = false;
    if (shared_->cache)
      shared_->last = std::move(shared_->cache);
    last = shared_->last;
  }
  if (last)
    last->close();
}

void cache_gate::close(std::chrono::steady_clock::time_point until) {
  if (!home_.is_here())
    return;
  shut();
  std::shared_ptr<client::cache_client> last;
  std::unique_lock guard{shared_->lock};
  shared_->returned.wait_until(guard, until, [this] { return shared_->loans == 0; });
  last = std::move(shared_->last);
  guard.unlock();
  last.reset(); // Without the lock: a client's end takes long.
}

cache_gate::loan::loan(cache_gate& from) : from_(from) {
  if (!from.is_open()) // The lock may be held in the parent.
    return;
  std::lock_guard guard{from.shared_->lock};
  cache_ = from.shared_->cache;
  if (cache_)
    ++from.shared_->loans;
}

cache_gate::loan::~loan() {
  if (!cache_)
    return;
  cache_.reset(); // Perhaps the last one: then the client ends here.
  {
    std::lock_guard guard{from_.shared_->lock};
    --from_.shared_->loans;
  }
  from_.shared_->returned.notify_all();
}

} // namespace peercache::python
