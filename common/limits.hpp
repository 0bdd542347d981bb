#pragma once

#include <cstddef>
#include <cstdint>

/// Bounds that several folders share; all others are options, or constants beside their queue.
/// Whatever exceeds a bound is refused or skipped, and counted.
namespace peercache::limits {

/// Length of a granule; pages start at multiples of this length.
inline constexpr std::uint32_t granule_bytes = 4096;
inline constexpr std::uint32_t page_bytes_max = 64u << 20;
/// Parts of one page: room for K and V of each layer, where an engine keeps its layers apart.
inline constexpr std::uint32_t parts_per_page_max = 512;
/// Rows of a peer's memory that one page is gathered from.
inline constexpr std::uint32_t rows_per_page_max = 16'384;
/// Most pages of one batch or message; the client splits longer calls.
inline constexpr std::uint32_t batch_pages_max = 8192;
inline constexpr std::uint32_t locations_per_key_max = 4;
/// Owners of each key in the directory, where the option `directory.replicas` is not set.
inline constexpr std::uint32_t directory_replicas_default = 2;
inline constexpr std::uint32_t channels_per_peer_max = 16;
inline constexpr std::uint32_t members_max = 4096;
/// How many former members a master remembers, to look for processes at their addresses.
inline constexpr std::uint32_t former_members_max = 64;
/// How many gone members a view remembers; the oldest ones are dropped.
inline constexpr std::uint32_t gone_members_max = 64;
inline constexpr std::uint32_t node_name_bytes_max = 255;

inline constexpr std::uint32_t granules_per_page_max = page_bytes_max / granule_bytes;
static_assert(page_bytes_max % granule_bytes == 0);

/// How many granules a page of this length takes; the pool and all its readers count alike.
constexpr std::uint32_t granules_of(std::uint32_t length_bytes) noexcept {
  return length_bytes / granule_bytes + (length_bytes % granule_bytes != 0 ? 1 : 0);
}

} // namespace peercache::limits
