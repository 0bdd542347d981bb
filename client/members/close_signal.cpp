#include "client/members/close_signal.hpp"

#include <cstdint>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utility>

namespace peercache::client {

close_signal::close_signal() : file_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void close_signal::give() {
  std::lock_guard guard{lock_};
  if (given_.exchange(true, std::memory_order_acq_rel))
    return;
  const std::uint64_t once = 1;
  if (file_) [[maybe_unused]]
    const auto written = ::write(file_.get(), &once, sizeof once);
  for (const auto& end_wait : waiters_)
    end_wait();
}

close_signal::waiter::waiter(close_signal& signal, std::function<void()> end_wait)
    : signal_(signal) {
  std::lock_guard guard{signal_.lock_};
  if (signal_.given_)
    end_wait();
  place_ = signal_.waiters_.insert(signal_.waiters_.end(), std::move(end_wait));
}

close_signal::waiter::~waiter() {
  std::lock_guard guard{signal_.lock_};
  signal_.waiters_.erase(place_);
}

} // namespace peercache::client
