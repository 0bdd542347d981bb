#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace peercache::client {

/// Decides when the pages that a look-up has found by now begin to be read, while other owners are
/// still asked: many bytes at once; a few after a moment, because a batch costs about as much as it
/// takes to read them, and owners usually answer within the moment. So each of a hundred owners
/// that answer one after the other does not make a batch of its own.
///
/// Threads: one. No clock. Bound: what counts as many doubles with each wave of many, and the
/// moment with each wave of few; so a look-up of 1 GiB has 10 waves of many, and 10 of few in a
/// second.
class read_waves {
public:
  using time_point = std::chrono::steady_clock::time_point;
  /// Bytes that begin at once for the first time: they take some 300 us over a fast TCP connection.
  static constexpr std::uint64_t many_at_first = 1u << 20;

  /// Whether the pages that were found by now, of this many bytes together, begin to be read. The
  /// next wave begins with none then.
  bool begins(std::uint64_t found_bytes, time_point now) {
    if (found_bytes < many_) {
      if (!waits_)
        waits_ = now + moment_;
      if (now < *waits_)
        return false;
      moment_ *= 2;
    } else {
      many_ *= 2;
    }
    waits_.reset();
    return true;
  }
  /// When `begins` becomes true though no page is found; the maximum: never.
  time_point next() const { return waits_.value_or(time_point::max()); }

private:
  std::uint64_t many_ = many_at_first;
  std::chrono::nanoseconds moment_ = std::chrono::milliseconds(1);
  std::optional<time_point> waits_; ///< End of the moment, if a few bytes wait for it.
};

} // namespace peercache::client
