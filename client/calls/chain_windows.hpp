#pragma once

#include "client/values/pages.hpp"
#include "common/interruption.hpp"
#include "common/limits.hpp"
#include "common/page_origin.hpp"
#include "common/page_status.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <span>

namespace peercache::client {

/// How many keys of a chain are asked about at a time, when only the pages before the first missing
/// one matter. In a cluster of few nodes one question to nearly every owner answers for all keys.
/// Where owners are many, each key costs about one message: a small window is asked about first,
/// and larger ones while all pages are found. Threads: one. No clock, no I/O.
class chain_windows {
public:
  static constexpr std::size_t first_keys = 16;
  static constexpr std::size_t growth = 4;
  /// A window that has more keys than one for this many members asks a large share of all owners
  /// anyway, and so takes all keys.
  static constexpr std::size_t members_per_key = 4;

  explicit chain_windows(std::size_t members) noexcept : members_(members) {}

  /// Returns the size of the next window. @param left number of keys not asked about yet, above 0
  std::size_t next(std::size_t left) noexcept {
    const auto piece = std::min<std::size_t>(left, limits::batch_pages_max);
    // A rest that is shorter than the window is not worth a round trip of its own.
    if (keys_ * members_per_key > members_ || left < 2 * keys_)
      return piece;
    const auto window = std::min(keys_, piece);
    keys_ *= growth;
    return window;
  }

private:
  const std::size_t members_;
  std::size_t keys_ = first_keys; ///< Size of the next window.
};

/// Returns how many pages are found from the first one on.
inline std::size_t leading_hits(std::span<const page_result> results) noexcept {
  const auto gap =
      std::ranges::find_if(results, [](const auto& page) { return !is_success(page.status); });
  return static_cast<std::size_t>(gap - results.begin());
}

/// Asks about a chain of pages window by window, until a page is not found. Returns how many pages
/// were asked about; the results of later ones are left as they are. Time is looked at between
/// windows: a page that is not asked about because of the deadline, or of an interruption of the
/// thread, ends the chain as `timed_out`. @param ask called with the first page's index and the
/// number of pages @param now the clock
template <class Ask, class Clock>
std::size_t ask_chain(std::span<page_result> results, deadline until, std::size_t members,
                      Ask&& ask, Clock&& now) {
  chain_windows windows{members};
  std::size_t asked = 0;
  while (asked < results.size()) {
    if (asked != 0 && (now() >= until || interruption::look())) {
      results[asked] = {page_status::timed_out, page_origin::none, 0};
      return asked + 1;
    }
    const auto count = windows.next(results.size() - asked);
    ask(asked, count);
    const bool whole = leading_hits(results.subspan(asked, count)) == count;
    asked += count;
    if (!whole)
      break;
  }
  return asked;
}

template <class Ask>
std::size_t ask_chain(std::span<page_result> results, deadline until, std::size_t members,
                      Ask&& ask) {
  return ask_chain(results, until, members, ask, std::chrono::steady_clock::now);
}

} // namespace peercache::client
