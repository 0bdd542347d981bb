#pragma once

#include "client/values/call_results.hpp"
#include "client/values/pages.hpp"

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>

namespace peercache::client {

/// Bounds, in bytes, the pages that were set and that the node has not acknowledged yet, and lets
/// callers wait until there are none. Threads: any.
class set_window {
public:
  /// The window is at most one part in this many of the pool: unacknowledged pages cannot give way
  /// to others.
  static constexpr std::uint64_t parts_of_pool = 8;

  /// What one call has taken of the window. The end of this object gives it back, so that a call
  /// that ends by an exception keeps nothing.
  class stay {
  public:
    /// As `enter`.
    stay(set_window& window, std::uint64_t bytes, deadline until)
        : window_(window), bytes_(bytes), inside_(window.enter(bytes, until)) {}
    ~stay() {
      if (inside_)
        window_.leave(bytes_, 1, {});
    }
    stay(const stay&) = delete;
    stay& operator=(const stay&) = delete;

    bool entered() const noexcept { return inside_; }
    /// Call when the pages are on their way to the node: `leave` is called when it has acknowledged
    /// them.
    void pass_on() noexcept { inside_ = false; }

  private:
    set_window& window_;
    const std::uint64_t bytes_;
    bool inside_;
  };

  explicit set_window(std::uint64_t bytes_max) : option_bytes_(bytes_max), bytes_max_(bytes_max) {}

  /// Notes that pages now go to a pool of this size: the window shrinks to its part of the pool, if
  /// that is less.
  void follow(std::uint64_t pool_bytes);

  /// Takes `bytes` of the window, and waits for room if necessary; false when there is no room by
  /// the deadline.
  bool enter(std::uint64_t bytes, deadline until);
  /// Gives back the bytes of `sets` calls, with the outcome of their pages.
  void leave(std::uint64_t bytes, std::uint64_t sets, const flush_result& outcome);
  /// Ends all waits, for good: `enter` finds no room, and `wait_empty` no empty window.
  void close();
  /// Waits for an empty window. Returns the outcome of the pages since the last call; nothing at
  /// the deadline.
  std::optional<flush_result> wait_empty(deadline until);

private:
  const std::uint64_t option_bytes_;
  std::mutex lock_;
  std::condition_variable changed_;
  std::uint64_t bytes_max_; ///< Guarded by lock_, like all members below.
  std::uint64_t bytes_ = 0;
  std::uint64_t calls_ = 0; ///< Calls that are in the window.
  flush_result outcome_;
  bool closed_ = false;
};

} // namespace peercache::client
