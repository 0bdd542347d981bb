#pragma once

#include <chrono>
#include <cstddef>
#include <optional>

namespace peercache::client {

/// Decides when the pages that a look-up has found by now begin to be read, while other owners are
/// still asked: many pages at once; a few after a moment, so that each of a hundred owners that
/// answer one after the other does not make a batch of its own.
///
/// Threads: one. No clock. Bound: what counts as many doubles with each wave of many, from a
/// sixteenth of the keys on, and the moment with each wave of few; so a look-up has 5 waves of
/// many, and 10 of few in a second.
class read_waves {
public:
  using time_point = std::chrono::steady_clock::time_point;

  /// @param keys number of keys that are looked up
  explicit read_waves(std::size_t keys) : many_((keys + 15) / 16) {}

  /// Whether the pages that were found by now begin to be read: `found` of them, more than 0. The
  /// next wave begins with none then.
  bool begins(std::size_t found, time_point now) {
    if (found < many_) {
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
  std::size_t many_;
  std::chrono::nanoseconds moment_ = std::chrono::milliseconds(1);
  std::optional<time_point> waits_; ///< End of the moment, if few pages wait for it.
};

} // namespace peercache::client
