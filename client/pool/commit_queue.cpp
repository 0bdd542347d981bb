#include "client/pool/commit_queue.hpp"

#include "common/assert.hpp"
#include "common/limits.hpp"
#include "link/protocol/pool_wire.hpp"

#include <utility>

namespace peercache::client {
namespace {

/// Whether the node takes both commits in one message.
bool can_join(const pending_commit& one, const pending_commit& other) {
  auto length = [](const pending_commit& job) {
    return job.next_lengths.empty() ? 0 : link::record_at<std::uint32_t>(job.next_lengths, 0);
  };
  return one.pool == other.pool && one.mode == other.mode &&
         (length(one) == 0 || length(other) == 0 || length(one) == length(other)) &&
         (one.filled.size() + other.filled.size()) / sizeof(link::filled_slot) <=
             limits::batch_pages_max;
}

/// Adds a later commit to an earlier one. The node takes the pages of a commit in from last to
/// first, so the pages of the later set go in front.
void join(pending_commit& earlier, const pending_commit& later) {
  // A lack of memory leaves the earlier commit as it was.
  earlier.filled.reserve(earlier.filled.size() + later.filled.size());
  earlier.next_lengths.reserve(earlier.next_lengths.size() + later.next_lengths.size());
  earlier.filled.insert(0, later.filled);
  earlier.next_lengths += later.next_lengths;
  earlier.bytes += later.bytes;
  earlier.sets += later.sets;
}

} // namespace

bool commit_queue::push(pending_commit job) {
  PEERCACHE_ASSERT(job.sets > 0 && job.filled.size() % sizeof(link::filled_slot) == 0);
  std::lock_guard hold(lock_);
  if (!waiting_.empty() && can_join(*waiting_.back(), job))
    join(*waiting_.back(), job);
  else
    waiting_.push_back(std::make_shared<pending_commit>(std::move(job)));
  return !std::exchange(busy_, true);
}

void commit_queue::not_woken() noexcept {
  std::lock_guard hold(lock_);
  busy_ = false;
}

pending_commit_ptr commit_queue::next() {
  std::lock_guard hold(lock_);
  if (waiting_.empty()) {
    busy_ = false;
    return nullptr;
  }
  PEERCACHE_ASSERT(busy_); // The session's actor was woken to call `next`.
  auto first = std::move(waiting_.front());
  waiting_.pop_front();
  return first;
}

} // namespace peercache::client
