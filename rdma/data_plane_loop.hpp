#pragma once

#include "rdma/data_plane.hpp"
#include "rdma/submit_ring.hpp"

#include <atomic>

namespace peercache::rdma {

struct data_plane_loop_options {
  std::uint32_t ring_capacity = 1024; ///< Batches that the submit ring holds; a power of two.
  /// How long the thread goes on polling after something moved, before it sleeps. On a machine with
  /// one CPU the thread does not spin.
  clock::duration spin = std::chrono::microseconds(50);
  /// The longest sleep of the thread; the plane's timers, events, batches and `wake` end a sleep
  /// earlier.
  clock::duration sleep_max = std::chrono::seconds(1);
};

/// The loop of a data plane's thread: takes batches from the ring, polls, sleeps. Starts no thread
/// itself. Threads: `run` in one thread, once; `submit`, `cancel` and `wake` from any. Ownership:
/// the plane is lent, and must outlive this object and the last `submit`. Errors: as
/// `submit_ring`'s.
class data_plane_loop {
public:
  /// While nothing moves, only one in this many turns reads the clock: reading it costs as much as
  /// a turn, and a system call on machines without a usable time-stamp counter.
  static constexpr std::uint32_t turns_per_clock = 16;

  explicit data_plane_loop(data_plane& plane, const data_plane_loop_options& opts = {});

  void submit(read_batch& batch) noexcept { ring_.submit(batch); }
  void cancel(const read_batch& batch) noexcept { ring_.cancel(batch); }

  /// Runs until `stop` is set, then finishes the batches that are left as `closed`. A thread that
  /// sets `stop` calls `wake` afterwards.
  void run(const std::atomic<bool>& stop);

  void wake() noexcept { plane_.wake(); }

private:
  data_plane& plane_;
  const data_plane_loop_options options_;
  submit_ring ring_;
};

} // namespace peercache::rdma
