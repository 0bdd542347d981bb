#pragma once

#include "client/lookup/lookup_plan.hpp"
#include "common/ids.hpp"

#include <cstdint>
#include <functional>

namespace peercache::client {

/// What a reader knows when it chooses where to read a page from.
struct reader_place {
  incarnation own;  ///< This host's node; zero: there is none.
  node_id own_node; ///< Id of this host's node; spreads readers over equal locations.
  /// Returns the bytes that this process is reading from a peer now.
  std::function<std::uint64_t(const incarnation&)> outstanding = [](const incarnation&) {
    return std::uint64_t{0};
  };
  /// Whether this process has no way to the holder of the page now.
  std::function<bool(const directory::page_location&)> is_away =
      [](const directory::page_location&) { return false; };
  /// A holder whose location has just turned out to be out of date: chosen only if there is no
  /// other.
  incarnation avoided;
  std::uint32_t length_bytes = 0; ///< Length of the wanted page; 0: any length.
};

/// Chooses the location to read a page from, in this order: pages of the wanted length; memory
/// before disk; the reader's host; a mirrored copy before its producer's; the peer with the fewest
/// bytes outstanding. Readers on different hosts prefer different ones of equal locations. A holder
/// that is away comes last.
///
/// @pre answer.count > 0
const directory::page_location& choose_location(const lookup_answer& answer,
                                                const reader_place& reader);

} // namespace peercache::client
