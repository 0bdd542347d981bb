#include "rdma/submit_ring.hpp"

#include "common/assert.hpp"
#include "net/futex.hpp"

#include <utility>

namespace peercache::rdma {

submit_ring::submit_ring(data_plane& plane, std::uint32_t capacity, std::function<void()> wake)
    : plane_(plane), wake_(std::move(wake)), mask_(capacity - 1), cells_(new cell[capacity]) {
  PEERCACHE_ASSERT(capacity != 0 && (capacity & (capacity - 1)) == 0);
  for (std::uint64_t i = 0; i < capacity; ++i) {
    cells_[i].sequence.store(i, std::memory_order_relaxed);
    cells_[i].batch = nullptr;
    cells_[i].cancels = false;
  }
}

void submit_ring::submit(read_batch& batch) noexcept {
  switch (push({&batch, false})) {
  case push_outcome::full:
    return batch.fail(page_status::refused);
  case push_outcome::closed:
    return batch.fail(page_status::closed);
  case push_outcome::taken:
    return wake_plane();
  }
}

void submit_ring::cancel(const read_batch& batch) noexcept {
  // Only the plane writes to the batch, and the plane cancels only a batch that it holds.
  const order what{const_cast<read_batch*>(&batch), true};
  auto outcome = push(what);
  while (outcome == push_outcome::full) {
    net::spin_pause();
    outcome = push(what);
  }
  // Where the ring is closed, nothing is left to cancel: `close` finishes the batches in the ring,
  // and the plane's `shutdown` finishes those that the plane has.
  if (outcome == push_outcome::taken)
    wake_plane();
}

void submit_ring::wake_plane() noexcept {
  // Pairs with `prepare_sleep`: this thread publishes its batch and then reads `sleeping_`; the
  // plane's thread sets `sleeping_` and then looks for batches. All four accesses are sequentially
  // consistent, so at least one of the threads sees what the other wrote, and no batch is slept
  // over. The exchange only chooses which producer makes the call.
  if (sleeping_.load(std::memory_order_seq_cst) &&
      sleeping_.exchange(false, std::memory_order_relaxed))
    wake_();
}

submit_ring::push_outcome submit_ring::push(const order& what) noexcept {
  auto tail = tail_.load(std::memory_order_relaxed);
  for (;;) {
    if (tail & closed_bit)
      return push_outcome::closed;
    auto& slot = cells_[tail & mask_];
    const auto sequence = slot.sequence.load(std::memory_order_acquire);
    if (sequence == tail) {
      if (tail_.compare_exchange_weak(tail, tail + 1, std::memory_order_relaxed)) {
        slot.batch = what.batch;
        slot.cancels = what.cancels;
        slot.sequence.store(tail + 1, std::memory_order_seq_cst);
        return push_outcome::taken;
      }
    } else if (sequence < tail) {
      return push_outcome::full;
    } else {
      tail = tail_.load(std::memory_order_relaxed);
    }
  }
}

submit_ring::order submit_ring::pop() noexcept {
  auto& slot = cells_[head_ & mask_];
  if (slot.sequence.load(std::memory_order_acquire) != head_ + 1)
    return {};
  const order taken{slot.batch, slot.cancels};
  slot.sequence.store(head_ + mask_ + 1, std::memory_order_release);
  ++head_;
  return taken;
}

bool submit_ring::drain() {
  bool any = false;
  // One call takes at most as many batches as the ring holds: producers that never pause must not
  // keep the plane from polling.
  for (std::uint64_t i = 0; i <= mask_; ++i) {
    const auto next = pop();
    if (next.batch == nullptr)
      break;
    if (next.cancels)
      plane_.cancel(*next.batch);
    else
      plane_.submit(*next.batch);
    any = true;
  }
  return any;
}

bool submit_ring::prepare_sleep() noexcept {
  sleeping_.store(true, std::memory_order_seq_cst);
  if (cells_[head_ & mask_].sequence.load(std::memory_order_seq_cst) != head_ + 1)
    return true;
  awake();
  return false;
}

void submit_ring::awake() noexcept {
  sleeping_.store(false, std::memory_order_relaxed);
}

void submit_ring::close() noexcept {
  const auto end = tail_.fetch_or(closed_bit, std::memory_order_relaxed) & ~closed_bit;
  // A producer that claimed a position before the closed bit was set is about to fill it, so an
  // empty position before `end` is waited for.
  while (head_ != end) {
    const auto left = pop();
    if (left.batch == nullptr)
      net::spin_pause();
    else if (!left.cancels)
      left.batch->fail(page_status::closed);
  }
}

} // namespace peercache::rdma
