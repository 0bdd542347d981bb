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

/// What lies in a pool and what of it is read most, in bounded memory. It is told each page that a
/// walk round the pool comes to (`page_pool::fold_uses`), so nothing is looked up for it. Sizes and
/// spaces are those of the last walk that ended, reads are counted over two windows. Threads: one,
/// the pool's. Bounds: `pages_max` largest pages, `spaces_max` spaces; pages of further spaces are
/// summed up in one row.
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
    space_id space; ///< 0: the spaces beyond the first `spaces_max`.
    std::uint64_t pages = 0;
    std::uint64_t bytes = 0;
  };

  /// Tells the time by which windows and walks are dated until the next call.
  void tell_time(time_point now);
  /// The next page is the first one of a walk; the walk before has come to its end.
  void begin_walk();
  /// The walk has come to this page, which was read `reads` times since the last walk.
  void saw(const page_key& key, std::uint64_t bytes, std::uint64_t reads);

  /// The most-read pages of the last window and this one, the first one most.
  std::vector<heavy_hitters::counter> hottest() const;
  /// Time for which `hottest` has counted.
  std::chrono::milliseconds counted_for() const;
  /// The largest pages of the last walk, the first one largest.
  std::vector<sized_page> largest() const;
  /// The spaces of the last walk, those of most bytes first.
  std::vector<sized_space> spaces() const;
  /// How long ago the last walk ended; zero before the first one did.
  std::chrono::milliseconds age() const;

private:
  struct walk {
    std::vector<sized_page> largest; ///< A heap, the smallest page in front.
    std::unordered_map<std::uint64_t, sized_space> spaces;
  };

  time_point now_{};
  bool walking_ = false;
  walk open_, ended_;
  time_point ended_at_{};
  heavy_hitters before_, now_read_; ///< Reads of the last window, and of this one.
  time_point before_began_{}, window_began_{};
};

} // namespace peercache::storage
