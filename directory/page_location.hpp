#pragma once

#include "common/ids.hpp"

#include <compare>
#include <cstdint>

namespace peercache::directory {

enum class tier : std::uint8_t { memory = 0, disk = 1 };

/// Says where one page can be read, and which fill of the slot it is. A location has neither
/// addresses nor rkeys, which are exchanged once per data connection. Locations travel between
/// processes (directory/wire.hpp): bump `wire_version` with any change.
struct page_location {
  node_id node;       ///< Id of `holder`: a location with another id counts as gone.
  incarnation holder; ///< The process that holds the page.
  generation gen;
  std::uint64_t checksum = 0; ///< Checksum of the page's bytes; 0: unknown, as no checksum is 0.
  slot_id slot;
  std::uint32_t length_bytes = 0;
  tier where = tier::memory;
  bool mirrored = false; ///< A reader made this copy because the page is hot: read it first.
  bool operator==(const page_location&) const = default;
};

/// Number of a cluster view. Two nodes compare the numbers of their views to find which of them has
/// the later view: a later view compares greater.
struct view_number {
  std::uint64_t term = 0;
  std::uint64_t version = 0;
  auto operator<=>(const view_number&) const = default;
};

} // namespace peercache::directory
