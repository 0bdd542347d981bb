#pragma once

#include "client/own_pool.hpp"
#include "link/protocol/pool_wire.hpp"

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>

namespace peercache::client {

/// A set, or several, whose bytes are in their slots; on its way to the node.
struct pending_commit {
  own_pool_ptr pool;
  std::string filled;       ///< Packed link::filled_slot, each set in prefix order.
  std::string next_lengths; ///< Packed lengths to reserve for the next set; all of one size.
  std::uint64_t bytes = 0;
  std::uint64_t sets = 1;
  link::commit_mode mode = link::commit_mode::skip;
};
using pending_commit_ptr = std::shared_ptr<const pending_commit>;

/// The sets that wait for the node. One commit is on its way at a time; the sets that come
/// meanwhile share the next message, and wake nobody: what a commit costs on its way through two
/// processes is so paid once for all sets of a round trip. Bounded by the set window. Threads: any.
class commit_queue {
public:
  /// True when nothing is on its way: the caller wakes the session's actor, who calls `next`.
  bool push(pending_commit job);
  /// Committer, when woken and when a commit has been answered: what to send now; null when nothing
  /// waits, and the next `push` wakes it again.
  pending_commit_ptr next();

private:
  std::mutex lock_;
  bool busy_ = false; ///< By lock_: the session's actor has been woken and will call `next`.
  std::deque<std::shared_ptr<pending_commit>> waiting_; ///< By lock_; the last one takes more in.
};

} // namespace peercache::client
