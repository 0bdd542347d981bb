#include "rdma/data_plane.hpp"

#include "common/assert.hpp"
#include "net/futex.hpp"

namespace peercache::rdma {

namespace {

/// How long a waiter spins before it sleeps: enough for the hand-over of a batch that is about to
/// finish. A read from another host takes far longer than this, and the awaited thread may need
/// this CPU.
constexpr auto spin_max = std::chrono::microseconds(4);
constexpr int pauses_per_look_at_the_clock = 32;
constexpr auto sleep_max = std::chrono::seconds(1);

bool spin_until_complete(const read_batch& batch) noexcept {
  if (batch.complete())
    return true;
  if (!net::spinning_helps())
    return false;
  const auto until = clock::now() + spin_max;
  do {
    for (int i = 0; i < pauses_per_look_at_the_clock; ++i) {
      if (batch.complete())
        return true;
      net::spin_pause();
    }
  } while (clock::now() < until);
  return false;
}

} // namespace

void read_batch::finish() noexcept {
  auto* const told = listener; // The batch may be gone as soon as its state is stored.
  const auto before = state_.exchange(state_complete, std::memory_order_acq_rel);
  PEERCACHE_ASSERT(before != state_complete);
  if (before == state_slept_on)
    net::futex_wake_all(state_);
  if (told != nullptr)
    told->on_complete();
}

void read_batch::fail(page_status status) noexcept {
  for (auto& page : pages)
    page.status = status;
  finish();
}

void read_batch::wait() const noexcept {
  while (!complete() && !wait_until(clock::now() + sleep_max)) {
  }
}

bool read_batch::wait_until(clock::time_point until) const noexcept {
  if (spin_until_complete(*this))
    return true;
  auto seen = state_.load(std::memory_order_acquire);
  while (seen != state_complete) {
    const auto left = until - clock::now();
    if (left <= clock::duration::zero())
      return false;
    if (seen == state_slept_on ||
        state_.compare_exchange_weak(seen, state_slept_on, std::memory_order_acq_rel,
                                     std::memory_order_acquire)) {
      net::futex_wait(state_, state_slept_on, left);
      seen = state_.load(std::memory_order_acquire);
    }
  }
  return true;
}

} // namespace peercache::rdma
