#pragma once

#include <cstdint>

namespace peercache::handoff {

/// A range of memory of one process. The struct is sent as it is (`handoff_wire_version`).
struct memory_range {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  bool operator==(const memory_range&) const = default;

  /// Whether the range has bytes, does not begin at address 0, and ends within the address space.
  constexpr bool possible() const noexcept {
    return address != 0 && bytes != 0 && bytes <= ~std::uint64_t{0} - address;
  }
  /// @pre both ranges are `possible`
  constexpr bool overlaps(const memory_range& other) const noexcept {
    return address < other.address + other.bytes && other.address < address + bytes;
  }
};

} // namespace peercache::handoff
