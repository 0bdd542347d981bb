#include "python/cache_gate.hpp"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <utility>

namespace peercache::python {

struct cache_gate::shared {
  std::mutex lock;
  std::condition_variable returned;
  /// The open client; null after `shut`. Guarded by `lock`.
  std::shared_ptr<client::cache_client> cache;
  /// The client from `shut` to the end of `close`. Guarded by `lock`.
  std::shared_ptr<client::cache_client> last;
  int loans = 0; ///< Calls that use the client now. Guarded by `lock`.
  /// Whether calls may borrow the client. Written under `lock`, read without it.
  std::atomic<bool> open{true};
};

cache_gate::cache_gate(std::shared_ptr<client::cache_client> cache)
    : shared_(std::make_unique<shared>()) {
  shared_->cache = std::move(cache);
}

cache_gate::~cache_gate() {
  // In a forked child the shared state is leaked: a thread of the parent may wait at its condition,
  // and the destructor would wait for that thread for ever.
  if (!home_.is_here())
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
  last.reset(); // The lock is not held here, since a client takes long to end.
}

cache_gate::loan::loan(cache_gate& from) : from_(from) {
  // Checked before locking: in a forked child the lock may be held by a thread of the parent.
  if (!from.is_open())
    return;
  std::lock_guard guard{from.shared_->lock};
  cache_ = from.shared_->cache;
  if (cache_)
    ++from.shared_->loans;
}

cache_gate::loan::~loan() {
  if (!cache_)
    return;
  cache_.reset(); // This may be the last reference; then the client ends here, not in `close`.
  {
    std::lock_guard guard{from_.shared_->lock};
    --from_.shared_->loans;
  }
  from_.shared_->returned.notify_all();
}

} // namespace peercache::python
