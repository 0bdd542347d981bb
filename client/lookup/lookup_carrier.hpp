#pragma once

#include <chrono>
#include <cstdint>
#include <poll.h>
#include <string_view>

namespace peercache::client {

/// Carries one question of a look-up to one owner, by whatever means, and brings the answer: over a
/// connection (client/lookup/lookup_over_tcp.hpp), or as others do.
///
/// Threads: one at a time, the thread of the call. Nothing blocks. Lifetime: one question; a
/// carrier that is destroyed before the answer came leaves nothing behind that a later question
/// could take for its answer. Errors: `broken`, which counts as a failure of the owner.
class lookup_carrier {
public:
  enum class state : std::uint8_t { asking, answered, broken };
  using time_point = std::chrono::steady_clock::time_point;

  virtual ~lookup_carrier() = default;

  /// Asks for packed keys (directory/wire.hpp). The answer may have come when this returns. Called
  /// once. @param request outlives the carrier
  virtual state start(std::string_view request) = 0;
  /// Goes on as far as possible. Call when `awaited` is ready, and at `look_at`. @pre the carrier
  /// is `asking`
  virtual state advance() = 0;
  /// The answer, as directory/wire.hpp describes it; valid until the next call. @pre the carrier
  /// has `answered`
  virtual std::string_view answer() const = 0;

  /// The descriptor to wait for, and its events; several carriers may wait for the same. fd is
  /// negative: there is none.
  virtual pollfd awaited() const { return {-1, 0, 0}; }
  /// Waits, until `until` at most, for an answer that takes microseconds, in the carrier's own way.
  /// Returns whether to `advance`; a carrier whose descriptor says when returns false at once.
  virtual bool wait_briefly(time_point) { return false; }
  /// When to `advance` although the descriptor is not ready; the maximum: never.
  virtual time_point look_at() const { return time_point::max(); }
  /// Keeps what further questions can use. Call at most once, after an answer that was well-formed.
  virtual void keep() {}
};

} // namespace peercache::client
