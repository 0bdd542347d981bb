#pragma once

#include "client/cache_client.hpp"

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace peercache::client {

/// Pages that were set and that the node has not acknowledged yet: bounds them in bytes, and lets
/// callers wait for the last one. Threads: any.
class set_window {
public:
  /// Of a pool's bytes, one part of so many: what is set and not acknowledged cannot give way to
  /// others.
  static constexpr std::uint64_t parts_of_pool = 8;

  explicit set_window(std::uint64_t bytes_max) : option_bytes_(bytes_max), bytes_max_(bytes_max) {}

  /// The pages go to a pool of this size from here on: the window is its part, if that is less.
  void follow(std::uint64_t pool_bytes);

  /// Takes `bytes` of the window; false when there is no room until the deadline.
  bool enter(std::uint64_t bytes, deadline until);
  /// Gives back what `sets` calls took, and says what became of their pages.
  void leave(std::uint64_t bytes, std::uint64_t sets, const flush_result& outcome);
  /// Nobody waits from here on: no room, nothing empty.
  void close();
  /// Waits for an empty window; what became of the pages since the last call, or nothing at the
  /// deadline.
  std::optional<flush_result> wait_empty(deadline until);

private:
  const std::uint64_t option_bytes_;
  std::mutex lock_;
  std::condition_variable changed_;
  std::uint64_t bytes_max_; ///< By lock_, as all below.
  std::uint64_t bytes_ = 0;
  std::uint64_t calls_ = 0; ///< Sets that are in the window.
  flush_result outcome_;
  bool closed_ = false;
};

} // namespace peercache::client
