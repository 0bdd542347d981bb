#pragma once

#include "common/limits.hpp"

#include <cstdint>
#include <span>

namespace peercache::client {

/// Returns the sum of the parts, or 0 when there are too many parts or the sum is not a page
/// length.
template <class Part>
std::uint32_t length_of(std::span<const Part> parts) noexcept {
  std::uint64_t bytes = 0;
  for (const auto& part : parts)
    bytes += part.bytes;
  bool fits = parts.size() <= limits::parts_per_page_max && bytes <= limits::page_bytes_max;
  return fits ? static_cast<std::uint32_t>(bytes) : 0;
}

} // namespace peercache::client
