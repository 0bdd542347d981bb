#pragma once

#include "actors/link_names.hpp"
#include "common/page_key.hpp"
#include "link/protocol/calls.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace peercache::actors {

/// The pages that left this node last, and how each of them left: with it `peercache why` explains
/// misses of evicted pages. A plain class. Threads: one. Bound: `pages_max`, 16 bytes each; the
/// oldest ones are forgotten.
class lost_pages {
public:
  using time_point = std::chrono::steady_clock::time_point;
  static constexpr std::size_t pages_max = std::size_t{1} << 17;
  /// Most pages that one call of `find` looks for; further prefixes are ignored.
  static constexpr std::size_t asked_max = std::size_t{1} << 16;
  /// Losses of one page that `find` returns at most: a page that was lost, missed, stored and lost
  /// again was missed because of an earlier loss.
  static constexpr std::size_t losses_of_page_max = 4;

  explicit lost_pages(std::size_t most = pages_max) : most_(most) {}

  void note(const page_key& key, page_loss how, time_point now);
  /// Notes the pages of packed keys.
  void note(std::string_view keys, page_loss how, time_point now);
  /// Notes those pages of packed keys whose page_status byte is a hit.
  void note_removed(std::string_view keys, std::string_view statuses, time_point now);

  /// Returns the newest losses of each page with one of these prefixes (packed u64), the newest of
  /// all first.
  lost_report find(std::string_view prefixes, time_point now) const;

private:
  struct loss {
    std::uint64_t prefix;
    std::uint64_t at_ms : 56; ///< Time since `begin_`, in ms.
    page_loss how : 8;
  };
  static_assert(sizeof(loss) == 16);

  std::uint64_t age_of(const loss& one, time_point now) const;

  std::size_t most_;
  std::size_t next_ = 0; ///< Index of the oldest loss, once `losses_` is full.
  std::vector<loss> losses_;
  time_point begin_{}; ///< Time of the first loss.
};

} // namespace peercache::actors
