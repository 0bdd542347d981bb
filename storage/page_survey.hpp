#pragma once

#include "common/key_epoch.hpp"
#include "common/page_key.hpp"
#include "storage/heavy_hitters.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace peercache::storage {

/// The largest pages and spaces of a pool and its most-read pages, in bounded memory. A survey is
/// told of each page that a walk round the pool comes to (`page_pool::fold_uses`), so a survey
/// looks nothing up. Sizes and spaces are those of the last walk that ended, reads are counted over
/// two windows.
/// Threads: one, the pool's. Bounds: `pages_max` largest pages, `spaces_max` spaces; pages of
/// further spaces are summed up in one row.
class page_survey {
public:
  using time_point = std::chrono::steady_clock::time_point;

  static constexpr std::size_t pages_max = 64;
  static constexpr std::size_t spaces_max = 1024;
  static constexpr std::chrono::minutes window{5};

  struct sized_page {
    page_key key;
    std::uint64_t bytes = 0;
  };
  struct sized_space {
    /// The space; 0: the sum of pages that have no space, or whose space the walk first met when
    /// it had `spaces_max` rows already, this row included.
    space_id space;
    std::uint64_t pages = 0;
    std::uint64_t bytes = 0;
  };

  /// Tells the time by which windows and walks are dated until the next call.
  void tell_time(time_point now);
  /// Ends the previous walk, if there was one; the next page that `saw` is told is the first of a
  /// new walk.
  void begin_walk();
  /// Notes that the walk has come to this page, which was read `reads` times since the last walk.
  void saw(const page_key& key, std::uint64_t bytes, std::uint64_t reads);

  /// The most-read pages of the previous and the present window, sorted by reads, most first.
  std::vector<heavy_hitters::counter> hottest() const;
  /// The time over which `hottest` has counted reads.
  std::chrono::milliseconds counted_for() const;
  /// The largest pages of the last complete walk, sorted by size, largest first.
  std::vector<sized_page> largest() const;
  /// The spaces of the last complete walk, sorted by bytes, most first.
  std::vector<sized_space> spaces() const;
  /// How long ago the last complete walk ended; zero before the first one did.
  std::chrono::milliseconds age() const;

private:
  struct walk {
    /// The largest pages seen so far, as a heap: the smallest of them in front.
    std::vector<sized_page> largest;
    std::unordered_map<std::uint64_t, sized_space> spaces;
  };

  time_point now_{};
  bool walking_ = false;
  walk open_, ended_;
  time_point ended_at_{};
  heavy_hitters before_, now_read_; ///< Reads in the previous window, and in the present one.
  time_point before_began_{}, window_began_{};
};

} // namespace peercache::storage
