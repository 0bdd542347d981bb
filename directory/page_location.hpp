#pragma once

#include "common/ids.hpp"

#include <compare>
#include <cstdint>

namespace peercache::directory {

enum class tier : std::uint8_t { memory = 0, disk = 1 };

/// Where one page can be read, and which filling of the slot it is. No address and no rkey: those
/// are exchanged once per data connection. Locations travel between processes (directory/wire.hpp):
/// a change is another `wire_version`.
struct page_location {
  node_id node;
  incarnation holder; ///< The process that holds the page.
  generation gen;
  std::uint64_t checksum = 0; ///< The page's checksum; 0 is no page's.
  slot_id slot;
  std::uint32_t length_bytes = 0;
  tier where = tier::memory;
  bool mirrored = false; ///< A reader's copy, made because the page is hot: read this one first.
  bool operator==(const page_location&) const = default;
};

/// The number of the view that somebody goes by; a later view compares greater.
struct view_number {
  std::uint64_t term = 0;
  std::uint64_t version = 0;
  auto operator<=>(const view_number&) const = default;
};

} // namespace peercache::directory
