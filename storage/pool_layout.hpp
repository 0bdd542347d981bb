#pragma once

#include "common/result.hpp"
#include "storage/pool_header.hpp"

#include <cstdint>
#include <string>

namespace peercache::storage {

/// Where the parts of a pool's object lie, as the object's header (storage/pool_header.hpp) says. A
/// value. Units: bytes, unless a name says otherwise.
struct pool_layout {
  std::uint32_t granules = 0;
  std::uint32_t index_buckets = 0;
  std::uint64_t index_offset = 0;
  std::uint64_t holds_offset = 0;
  std::uint64_t clients_offset = 0;
  std::uint64_t table_offset = 0;
  std::uint64_t pages_offset = 0;
  std::uint64_t object_bytes = 0;
  bool operator==(const pool_layout&) const = default;
};

/// Plans the object of a pool whose pages have `size_bytes` together, rounded down to whole pages
/// of the kernel. Each part that clients map on its own begins at such a page, and the object ends
/// at one: with huge pages the parts in front of the pages take three of them at least.
/// @param huge_page_bytes the size of the kernel's pages behind the object; 0: not huge ones
/// Errors: `invalid_argument` with the option's name.
result<pool_layout> plan_layout(std::uint64_t size_bytes, std::uint64_t huge_page_bytes);

/// Reads the layout from an object's header, whoever wrote it. Errors: `incompatible` when the
/// object is not a complete pool of this version, or is smaller than its header says.
result<pool_layout> read_layout(const pool_header& header, std::uint64_t object_bytes,
                                const std::string& name);

/// Writes the layout version, the granule size and the layout into the header. `magic` and the
/// fields about owner, maker, sessions and prefix are the caller's to write.
void write_layout(pool_header& header, const pool_layout& layout);

} // namespace peercache::storage
