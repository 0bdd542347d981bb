#pragma once

#include "common/ids.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace peercache::client {

/// Pages of other hosts that this client held and has read since, or does not want to hold. Now and
/// then the session tells the holders (client/session/session_news.hpp), which may then evict the
/// pages before the hold's time is over. Threads: any. Bound: `records_max`; the holds of further
/// pages end by their time.
class hold_releases {
public:
  static constexpr std::size_t records_max = 65'536;

  /// Adds a page of this holder.
  void add(const incarnation& holder, slot_id slot, generation gen);

  /// A message for one holder: packed link::used_page, at most `limits::batch_pages_max`.
  using of_holder = std::pair<incarnation, std::string>;
  /// Takes out the pages that were added since the last call.
  std::vector<of_holder> take();
  /// Takes out the messages for this holder.
  std::vector<std::string> take_of(const incarnation& holder);

private:
  std::mutex lock_;
  std::vector<of_holder> open_; ///< Guarded by lock_. Messages that have room, one for each holder.
  std::vector<of_holder> full_; ///< Guarded by lock_.
  std::size_t records_ = 0;     ///< Guarded by lock_. Records of all messages.
};

/// Whether a client has holds that may still last, so that its reads have to look for them.
/// Threads: any.
class hold_clock {
public:
  using time_point = std::chrono::steady_clock::time_point;

  /// Notes that something may be held until `end`.
  void held_until(time_point end) noexcept;
  bool may_hold(time_point now) const noexcept {
    return now.time_since_epoch().count() < end_.load(std::memory_order_relaxed);
  }

private:
  std::atomic<time_point::rep> end_{0};
};

} // namespace peercache::client
