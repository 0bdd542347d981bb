#pragma once

#include "rdma/data_plane.hpp"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

namespace peercache::rdma {

/// How caller threads hand batches to the one thread that runs a data plane, and ask for them to be
/// cancelled: a bounded ring of pointers, and a wake-up only when that thread sleeps. Threads: any
/// may `submit` and `cancel`; all else is for the thread that runs the plane. Ownership: batches
/// stay the callers'; the plane must outlive the last `submit`. Errors: a full ring finishes the
/// batch as `refused`, a closed one as `closed`, both before `submit` returns. Invariants: (1) a
/// batch that `submit` took reaches the plane or is finished by `close`, exactly once; (2) what one
/// thread submits and cancels reaches the plane in order.
class submit_ring {
public:
  /// Makes an empty ring in front of `plane`. @param wake wakes the plane's thread, from any thread
  /// @pre `capacity` is a power of two
  submit_ring(data_plane& plane, std::uint32_t capacity, std::function<void()> wake);

  submit_ring(const submit_ring&) = delete;
  submit_ring& operator=(const submit_ring&) = delete;

  void submit(read_batch& batch) noexcept;

  /// Asks the plane to complete a batch that `submit` took (`data_plane::cancel`); the batch is
  /// complete soon after this call. When the ring is full, the call waits until the plane has taken
  /// something out, so the plane's thread must not call it. @pre the batch is not destroyed yet
  void cancel(const read_batch& batch) noexcept;

  /// Hands every batch in the ring to the plane. Returns true when there was one.
  bool drain();
  /// Whether the ring holds anything, or some thread is about to put something in.
  bool has_more() const noexcept {
    return (tail_.load(std::memory_order_relaxed) & ~closed_bit) != head_;
  }

  /// Announces that the plane's thread is about to sleep: from now on `submit` wakes it. Returns
  /// false, and takes the announcement back, when a batch has arrived meanwhile: the thread must
  /// not sleep then.
  bool prepare_sleep() noexcept;
  /// Whether the thread has announced its sleep and nobody has woken it since.
  bool asleep() const noexcept { return sleeping_.load(std::memory_order_seq_cst); }
  /// Takes the announcement back: from now on the thread looks into the ring by itself.
  void awake() noexcept;

  /// Closes the ring: further batches, and those still in the ring, are finished as `closed`.
  void close() noexcept;

private:
  /// A place of the ring. `sequence` says whose turn it is: `p` lets the producer of position p
  /// fill it, `p + 1` lets the plane's thread take the batch.
  struct cell {
    std::atomic<std::uint64_t> sequence;
    read_batch* batch;
    bool cancels; ///< The batch has to be cancelled, and may be destroyed already.
  };

  enum class push_outcome : std::uint8_t { taken, full, closed };

  struct order {
    read_batch* batch = nullptr; ///< Null: the ring is empty.
    bool cancels = false;
  };

  push_outcome push(const order& what) noexcept;
  order pop() noexcept;
  void wake_plane() noexcept;

  static constexpr std::uint64_t closed_bit = std::uint64_t{1} << 63;

  // Members that stay constant after construction.
  data_plane& plane_;
  const std::function<void()> wake_;
  const std::uint64_t mask_;
  const std::unique_ptr<cell[]> cells_;

  // Members that all threads use. Producers race for `tail_`; its top bit says that the ring is
  // closed, so that no producer can claim a position after `close`.
  alignas(64) std::atomic<std::uint64_t> tail_{0};
  alignas(64) std::atomic<bool> sleeping_{false};

  // Member that only the plane's thread uses.
  alignas(64) std::uint64_t head_ = 0;
};

} // namespace peercache::rdma
