#pragma once

#include "rdma/verbs/queue_pair.hpp"
#include "rdma/verbs/served_chunks.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace peercache::rdma {

/// The memory windows of one session: one for each chunk that its rail serves, bound to the
/// session's queue pair in the order of the chunks, once. A reader is told of a chunk when its
/// window is bound. Threads: none; the rail serializes. Ownership: the windows end with this
/// object, which ends before the queue pair does.
class session_windows {
public:
  using clock = std::chrono::steady_clock;
  /// Bindings of a session that are under way at a time: its queue pair's send queue holds as many.
  static constexpr std::uint32_t depth = 16;

  /// Posts bindings for chunks that have no window yet, as many as there is room for. After an
  /// error the session has to end; what was posted before the error is under way all the same.
  /// @param all the chunks that are served; only grows from call to call
  /// @param at_most how many the rail has room for
  result<void> bind(const served_chunks& all, verbs::queue_pair& pair, std::uint32_t at_most,
                    std::uint64_t wr_id, clock::time_point now);
  /// Notes that the oldest binding that is under way has completed. @pre under_way() > 0
  void bound(clock::time_point now) noexcept;
  /// Notes that a binding has failed, and with it the queue pair.
  void fail() noexcept { failed_ = true; }
  bool failed() const noexcept { return failed_; }

  /// Lets no window be bound before `until`.
  void put_off(clock::time_point until) noexcept { not_before_ = until; }
  bool is_put_off(clock::time_point now) const noexcept { return now < not_before_; }
  /// Ends windows of a queue pair that has stopped, at most `at_most`; returns how many. Only
  /// `end_some` and `size` may be called afterwards.
  std::size_t end_some(std::size_t at_most) noexcept;

  /// The chunks whose windows are bound, each with the key of its window.
  std::span<const region_chunk> chunks() const noexcept { return {chunks_.data(), bound_}; }
  /// Windows that are bound or being bound.
  std::size_t size() const noexcept { return windows_.size(); }
  /// Whether the first binding was posted `patience` ago, or longer.
  bool begun(clock::time_point now, clock::duration patience) const noexcept {
    return !windows_.empty() && now - begun_at_ >= patience;
  }
  std::uint32_t under_way() const noexcept {
    return static_cast<std::uint32_t>(windows_.size() - bound_);
  }
  /// Whether a binding is under way and none has completed for `patience`.
  bool stuck(clock::time_point now, clock::duration patience) const noexcept {
    return under_way() != 0 && now - moved_at_ >= patience;
  }

private:
  std::vector<verbs::memory_window> windows_;
  std::vector<region_chunk> chunks_; ///< The chunk of each window, as its reader is told of it.
  std::size_t bound_ = 0;            ///< Bindings that have completed.
  bool failed_ = false;
  clock::time_point not_before_{};
  clock::time_point begun_at_{};
  clock::time_point moved_at_{}; ///< When the first of those under way was posted, or moved up.
};

} // namespace peercache::rdma
