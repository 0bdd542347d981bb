#include "client/pool/set_window.hpp"

#include "common/assert.hpp"
#include "common/interruption.hpp"

#include <algorithm>

namespace peercache::client {

void set_window::follow(std::uint64_t pool_bytes) {
  {
    std::lock_guard guard{lock_};
    bytes_max_ = std::min(option_bytes_, pool_bytes / parts_of_pool);
  }
  changed_.notify_all();
}

bool set_window::enter(std::uint64_t bytes, deadline until) {
  std::unique_lock guard{lock_};
  // A call that is larger than the whole window passes when no other call is in the window.
  auto fits = [&] { return bytes_ == 0 || bytes_ + bytes <= bytes_max_; };
  if (!wait_interruptibly(guard, changed_, until, [&] { return closed_ || fits(); }) || closed_)
    return false;
  bytes_ += bytes;
  ++calls_;
  return true;
}

void set_window::leave(std::uint64_t bytes, std::uint64_t sets, const flush_result& outcome) {
  {
    std::lock_guard guard{lock_};
    PEERCACHE_ASSERT(bytes_ >= bytes && calls_ >= sets);
    bytes_ -= bytes;
    calls_ -= sets;
    outcome_.failed += outcome.failed;
    outcome_.duplicates += outcome.duplicates;
    outcome_.unpublished += outcome.unpublished;
  }
  changed_.notify_all();
}

void set_window::close() {
  {
    std::lock_guard guard{lock_};
    closed_ = true;
  }
  changed_.notify_all();
}

std::optional<flush_result> set_window::wait_empty(deadline until) {
  std::unique_lock guard{lock_};
  if (!wait_interruptibly(guard, changed_, until, [&] { return closed_ || calls_ == 0; }) ||
      closed_)
    return std::nullopt;
  return std::exchange(outcome_, {});
}

} // namespace peercache::client
