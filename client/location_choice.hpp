#pragma once

#include "client/lookup_plan.hpp"
#include "common/ids.hpp"

#include <cstdint>
#include <functional>

namespace peercache::client {

/// What a reader knows when it chooses where to read a page from.
struct reader_place {
  incarnation own;  ///< Of this host's node; zero for none.
  node_id own_node; ///< Spreads readers over equal locations.
  /// Bytes that this process is reading from a peer now.
  std::function<std::uint64_t(const incarnation&)> outstanding = [](const incarnation&) {
    return std::uint64_t{0};
  };
  /// Whether this process has no way to the holder now.
  std::function<bool(const incarnation&)> is_away = [](const incarnation&) { return false; };
  incarnation avoided; ///< Its location was out of date just now: only when there is no other.
  std::uint32_t length_bytes = 0; ///< Of the page that is wanted; 0: of any length.
};

/// A page of the wanted length before others; then memory before disk, then the own host, then a
/// mirrored copy before its producer's, then the peer with the fewest bytes outstanding; readers on
/// different hosts prefer different ones of those that are equal. A holder that is away comes last.
/// @pre answer.count > 0
const directory::page_location& choose_location(const lookup_answer& answer,
                                                const reader_place& reader);

} // namespace peercache::client
