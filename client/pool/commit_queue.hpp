#pragma once

#include "client/pool/own_pool.hpp"
#include "link/protocol/pool_wire.hpp"

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>

namespace peercache::client {

/// A commit: one set, or several, whose bytes are in their slots, on the way to the node.
struct pending_commit {
  own_pool_ptr pool;
  std::string filled;       ///< Packed link::filled_slot; each set in prefix order.
  std::string next_lengths; ///< Packed lengths to reserve for the next set; all of one size.
  std::uint64_t bytes = 0;
  std::uint64_t sets = 1;
  link::commit_mode mode = link::commit_mode::skip;
};
using pending_commit_ptr = std::shared_ptr<const pending_commit>;

/// The sets that wait for the node. One commit is on its way at a time; sets that come before its
/// answer share the next message and wake nobody: the cost of a commit's way through two processes
/// is paid once for all sets of a round trip. Bounded by the set window. Threads: any.
class commit_queue {
public:
  /// Queues a set. True when no commit is on its way: the caller then wakes the session's actor,
  /// which calls `next`.
  bool push(pending_commit job);
  /// The actor could not be woken: the next `push` wakes it.
  void not_woken() noexcept;
  /// For the session's actor, when woken and when a commit has been answered: returns the commit to
  /// send now. Null when nothing waits; then the next `push` wakes the actor again.
  pending_commit_ptr next();

private:
  std::mutex lock_;
  /// Guarded by lock_. The session's actor has been woken and will call `next`.
  bool busy_ = false;
  /// Guarded by lock_. Commits in the order of their sets; later sets join the last commit if they
  /// can.
  std::deque<std::shared_ptr<pending_commit>> waiting_;
};

} // namespace peercache::client
