#pragma once

#include "rdma/data_plane.hpp"
#include "rdma/submit_ring.hpp"

#include <atomic>
#include <mutex>

namespace peercache::rdma {

struct data_plane_loop_options {
  std::uint32_t ring_capacity = 1024; ///< Batches that the submit ring holds; a power of two.
  /// How long the thread goes on polling after something moved, before it sleeps. On a machine with
  /// one CPU the thread does not spin.
  clock::duration spin = std::chrono::microseconds(50);
  /// The longest sleep of the thread; the plane's timers, events, batches and `wake` end a sleep
  /// earlier.
  clock::duration sleep_max = std::chrono::seconds(1);
  /// Whether callers may run the plane themselves (`read_now`). @pre if so, the plane has a
  /// descriptor
  bool callers_run = false;
  /// How long a caller works on nothing but its own batch.
  clock::duration caller_alone_max = std::chrono::microseconds(200);
  /// How long a caller runs the plane, which others may use meanwhile, before it leaves its batch
  /// to the thread. No more than one caller of a plane spins so at a time.
  clock::duration caller_run_max = std::chrono::milliseconds(5);
};

/// The loop of a data plane's thread: takes batches from the ring, polls, sleeps. Starts no thread
/// itself. With `callers_run` the thread holds the plane for one turn at a time, and a caller of
/// `read_now` runs it between two turns, or while the thread sleeps: a short read then wakes
/// nobody. Threads: `run` in one thread, once; `submit`, `read_now`, `cancel` and `wake` from any.
/// Ownership: the plane is lent, and must outlive this object and the last `submit`. Errors: as
/// `submit_ring`'s.
class data_plane_loop {
public:
  /// While nothing moves, only one in this many turns reads the clock: reading it costs as much as
  /// a turn, and a system call on machines without a usable time-stamp counter.
  static constexpr std::uint32_t turns_per_clock = 16;

  explicit data_plane_loop(data_plane& plane, const data_plane_loop_options& opts = {});

  void submit(read_batch& batch) noexcept { ring_.submit(batch); }
  void cancel(const read_batch& batch) noexcept { ring_.cancel(batch); }

  /// Submits a batch that takes microseconds. The calling thread works on it for a few milliseconds
  /// at most (`caller_run_max`), where callers may run the plane and nobody else does at the
  /// moment; in any other case this is `submit`. The batch need not be complete afterwards.
  void read_now(read_batch& batch) noexcept;

  /// Runs until `stop` is set, then finishes the batches that are left as `closed`. A thread that
  /// sets `stop` calls `wake` afterwards.
  void run(const std::atomic<bool>& stop);

  void wake() noexcept { plane_.wake(); }

private:
  std::unique_lock<std::mutex> take_turn();
  /// Runs the plane until the batch is complete, for `caller_run_max` at most. Returns whether it
  /// is; sets `took` when batches came from the ring.
  bool run_until_complete(const read_batch& batch, bool& took);
  bool sleep();

  data_plane& plane_;
  const data_plane_loop_options options_;
  submit_ring ring_;
  /// Held by the thread that runs the plane and takes batches out of the ring. Nobody locks it
  /// unless callers may run the plane.
  std::mutex turn_;
};

} // namespace peercache::rdma
