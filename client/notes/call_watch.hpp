#pragma once

#include "common/key_epoch.hpp"
#include "common/page_key.hpp"
#include "link/protocol/calls.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace peercache::client {

/// The longest wait of one call. Threads: one.
struct longest_wait {
  using duration = std::chrono::steady_clock::duration;

  link::call_wait what = link::call_wait::nothing;
  std::string whom; ///< Name of the node that was waited for; empty: several, or none.
  duration lasted{};

  void add(link::call_wait kind, std::string_view node, duration waited) {
    if (waited <= lasted)
      return;
    what = kind;
    whom = node;
    lasted = waited;
  }
  void add(const longest_wait& other) { add(other.what, other.whom, other.lasted); }
};

/// The slowest calls of a client over the last minutes, and the spaces that its calls name:
/// `peercache slow` and `peercache sessions` show them. The client sends them to its node.
///
/// Threads: any. A call that is not among the slowest costs one atomic addition and two loads; the
/// mutex is held while a slow call is put in its place, and while the calls are reported. Bounds:
/// `slow_max` calls of the window, and `spaces_max` spaces; uses of further spaces are not counted.
class call_watch {
public:
  using time_point = std::chrono::steady_clock::time_point;
  using duration = std::chrono::steady_clock::duration;

  static constexpr std::size_t slow_max = 32;
  static constexpr std::size_t spaces_max = 64;

  /// A call that has ended.
  struct call {
    link::call_kind kind;
    page_key first; ///< The call's first key.
    std::size_t pages = 0;
    std::size_t failed = 0;
    duration took{};
    longest_wait wait;
  };

  /// Counts the pages of a call. All of them count as pages of the space of `first`.
  void count(link::call_kind kind, const page_key& first, std::size_t pages) noexcept;
  /// Whether a call that took this long is among the slowest: if so, call `keep`.
  bool is_slow(duration took) const noexcept {
    return took.count() > floor_.load(std::memory_order_relaxed);
  }
  void keep(call slow, time_point now);

  /// Tells how the client reads from other hosts.
  void set_data_plane(std::string words);

  /// Adds the slowest calls of the window, the slowest one first, the spaces and the data plane.
  /// Returns whether there were calls since the last `take`.
  bool take(link::call_report& into, time_point now);

private:
  struct kept {
    call what;
    time_point at;
  };
  struct cell {
    std::atomic<std::uint64_t> space{0}; ///< The space that this cell counts; 0: the cell is free.
    std::array<std::atomic<std::uint64_t>, link::call_kinds> pages{};
  };

  /// Finds or makes the cell of a space; null: there are too many spaces.
  cell* cell_of(space_id space) noexcept;
  /// Forgets calls that are older than the window; the caller holds lock_.
  void forget_old(time_point now);
  void set_floor(); ///< Sets `floor_` from `slow_`; the caller holds lock_.

  std::array<cell, spaces_max> cells_;
  std::atomic<bool> counted_{false}; ///< Something was counted since the last `take`.
  /// A call is kept among the slowest only if it took longer than this; in ticks of `duration`.
  std::atomic<duration::rep> floor_{0};
  std::mutex lock_; // Threads of the engine note calls, and the session's actor takes reports.
  std::vector<kept> slow_; ///< Guarded by lock_. In no order.
  std::string data_plane_; ///< Guarded by lock_.
};

} // namespace peercache::client
