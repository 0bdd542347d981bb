#pragma once

#include "common/page_key.hpp"
#include "common/page_origin.hpp"
#include "common/page_part.hpp"
#include "common/page_status.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

namespace peercache::client {

/// When a call ends at the latest.
using deadline = std::chrono::steady_clock::time_point;

/// A piece of the caller's memory that holds bytes of a page to store.
struct const_part {
  const std::byte* data = nullptr;
  std::uint32_t bytes = 0;
};

/// One page to store: its bytes are the parts one after the other (K and V: two parts, one page).
struct set_page {
  page_key key;
  std::span<const const_part> parts;
};

/// One page to fetch; the parts' sizes must add up to the page's length.
struct get_page {
  page_key key;
  std::span<const page_part> parts;
};

struct page_result {
  page_status status = page_status::pending;
  page_origin origin = page_origin::none;
  std::uint32_t length_bytes = 0;
  /// Whether `exists` holds the page: its holder does not evict it before the hold's time is over,
  /// or this client has read it.
  bool held = false;
};

/// How `exists` holds the pages that it finds. A hold ends when this client has read the page, or
/// by its time, also when the client has died. Where several clients hold one page, their holds end
/// only by time. A page that is removed, cleared or replaced, or whose node drains, goes all the
/// same. Only the copy that `exists` found is held.
struct exists_hold {
  /// How long pages are held; 0: no page is held. A time above `duration_max` is shortened to it.
  std::chrono::milliseconds duration{0};
  /// Number of consecutive keys that form one group, counted from the first key on: the pages of a
  /// group are all held, or none of them is.
  std::uint32_t group_pages = 1;

  static constexpr std::chrono::milliseconds duration_max{10'000};
};

/// Which nodes `remove` asks.
enum class remove_scope : std::uint8_t {
  holders, ///< The nodes that the directory names.
  /// All nodes that this client has ever seen in a view, because a page may lie where no record
  /// names it. If one of these nodes is no longer in the view (`nodes_gone`), every page is
  /// `unreachable`.
  every_node,
};

} // namespace peercache::client
