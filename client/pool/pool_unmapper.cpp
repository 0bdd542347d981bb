#include "client/pool/pool_unmapper.hpp"

#include <utility>

namespace peercache::client {

own_pool_ptr pool_unmapper::share(std::unique_ptr<own_pool> pool,
                                  const std::shared_ptr<pool_unmapper>& unmapper) {
  return {pool.release(),
          [unmapper](own_pool* last) { unmapper->take(std::unique_ptr<own_pool>(last)); }};
}

void pool_unmapper::take(std::unique_ptr<own_pool> pool) {
  {
    std::lock_guard hold(lock_);
    if (!ended_)
      gone_.push_back(std::move(pool));
  }
  changed_.notify_one();
}

void pool_unmapper::run() {
  std::unique_lock hold(lock_);
  for (;;) {
    changed_.wait(hold, [this] { return stop_ || !gone_.empty(); });
    if (gone_.empty())
      break;
    auto ending = std::exchange(gone_, {});
    hold.unlock();
    ending.clear();
    hold.lock();
  }
  ended_ = true;
}

void pool_unmapper::stop() noexcept {
  {
    std::lock_guard hold(lock_);
    stop_ = true;
  }
  changed_.notify_one();
}

} // namespace peercache::client
