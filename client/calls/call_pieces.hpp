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

/// Does a call of many pages piece by piece and looks at the clock between pieces: a piece takes a
/// few milliseconds besides its waits, a million pages take a second. Pages that are not begun
/// before the deadline, or before an interruption of the thread, are `timed_out`. The first piece
/// is always done, so that faults of its pages are reported even without any time. @param piece
/// called with the first page's index and the number of pages @param now the clock
template <class Piece, class Clock>
void in_pieces(std::span<page_result> results, deadline until, Piece&& piece, Clock&& now) {
  for (std::size_t done = 0; done < results.size(); done += limits::batch_pages_max) {
    if (done != 0 && (now() >= until || interruption::look())) {
      std::fill(results.begin() + static_cast<std::ptrdiff_t>(done), results.end(),
                page_result{page_status::timed_out, page_origin::none, 0});
      return;
    }
    piece(done, std::min<std::size_t>(limits::batch_pages_max, results.size() - done));
  }
}

template <class Piece>
void in_pieces(std::span<page_result> results, deadline until, Piece&& piece) {
  in_pieces(results, until, piece, std::chrono::steady_clock::now);
}

} // namespace peercache::client
