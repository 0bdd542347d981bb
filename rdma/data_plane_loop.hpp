#pragma once

#include "rdma/data_plane.hpp"
#include "rdma/submit_ring.hpp"

#include <atomic>
#include <mutex>

namespace peercache::rdma {

/// Whether callers of `read_now` run a plane in place of its thread: never, or polling as long as
/// their batch takes, or sleeping between the events of the plane.
enum class callers_run : std::uint8_t { never, polling, sleeping };

struct data_plane_loop_options {
  std::uint32_t ring_capacity = 1024; ///< Batches that the submit ring holds; a power of two.
  /// How long the thread goes on polling after something moved, before it sleeps. On a machine with
  /// one CPU the thread does not spin.
  clock::duration spin = std::chrono::microseconds(50);
  /// The longest sleep of the thread; the plane's timers, events, batches and `wake` end a sleep
  /// earlier.
  clock::duration sleep_max = std::chrono::seconds(1);
  /// @pre the plane has a descriptor, unless `never`
  callers_run callers = callers_run::never;
  /// How long a caller works on nothing but its own batch.
  clock::duration caller_alone_max = std::chrono::microseconds(200);
  /// How long a caller runs the plane, which others may use meanwhile, before it leaves its batch
  /// to the thread. No more than one caller of a plane spins so at a time.
  clock::duration caller_run_max = std::chrono::milliseconds(5);
};

/// The loop of a data plane's thread: takes batches from the ring, polls, sleeps. Starts no thread
/// itself. Where callers run the plane, the thread holds it for one turn at a time, and a caller of
/// `read_now` runs it between two turns, or while the thread sleeps: a short read then wakes
/// nobody. Two that sleep on a plane's events would both wake; so `callers_run::sleeping` has the
/// thread of a plane without batches sleep apart from them (*park*), and a caller runs the plane
/// only while the thread is parked. It leaves as soon as anything else comes for the plane.
/// Threads: `run` in one thread, once; `submit`, `read_now`, `cancel` and `wake` from any.
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
  /// sets `stop` calls `wake` afterwards. The plane's exceptions (no memory) end the process, as
  /// they do in `read_now`: a plane that stopped in mid-work would leave its callers waiting for
  /// ever.
  void run(const std::atomic<bool>& stop) noexcept;

  /// Ends the thread's sleep. A thread that is awake looks at `stop` once more before it sleeps.
  void wake() noexcept;

private:
  void lock_turn();
  /// The thread's turn; none is needed where no callers run the plane.
  std::unique_lock<std::mutex> take_turn();
  /// A caller's turn; none when the batch has to go by the thread.
  std::unique_lock<std::mutex> take_callers_turn();
  /// Runs the plane until the batch is complete, for `caller_run_max` at most. Returns whether it
  /// is.
  bool poll_until_complete(const read_batch& batch);
  /// Does so, but sleeps while nothing moves, and returns when the bell is rung.
  bool sleep_until_complete(const read_batch& batch, std::uint32_t bell_seen);
  /// @param bell_seen the bell before the thread last looked whether it has to stop
  bool sleep(std::uint32_t bell_seen);
  /// Sleeps with the turn, or without it, where callers may run the plane meanwhile; has it
  /// afterwards.
  void sleep_with(std::unique_lock<std::mutex>& turn, std::uint32_t bell_seen);

  data_plane& plane_;
  const data_plane_loop_options options_;
  submit_ring ring_;
  /// Held by the thread that runs the plane and takes batches out of the ring. Nobody locks it
  /// unless callers may run the plane.
  std::mutex turn_;
  std::atomic<std::uint32_t> bell_{0}; ///< The number of wakes; a parked thread sleeps on it.
  bool parked_ = false;                ///< The thread sleeps on the bell. Guarded by `turn_`.
  /// The thread waits for its turn, so callers take none: a mutex does not go by who came first.
  std::atomic<bool> thread_waits_{false};
};

} // namespace peercache::rdma
