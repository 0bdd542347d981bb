#pragma once

#include "common/result.hpp"
#include "storage/pool_header.hpp"

#include <cstdint>
#include <string>

namespace peercache::storage {

/// Where the parts of a pool's object lie; the header (storage/pool_header.hpp) says it too.
/// A value. Units: bytes, but where the names say otherwise.
struct pool_layout {
  std::uint32_t granules = 0;
  std::uint32_t index_buckets = 0;
  std::uint64_t index_offset = 0;
  std::uint64_t table_offset = 0;
  std::uint64_t pages_offset = 0;
  std::uint64_t object_bytes = 0;
  bool operator==(const pool_layout&) const = default;
};

/// The layout for pages of `size_bytes` together, rounded down to the kernel's pages. Errors:
/// `invalid_argument` with the option's name.
result<pool_layout> plan_layout(std::uint64_t size_bytes, bool huge_pages);

/// The layout that an object's header describes, whoever wrote it. Errors: `incompatible` when the
/// object is no complete pool of this version, or smaller than its header says.
result<pool_layout> read_layout(const pool_header& header, std::uint64_t object_bytes,
                                const std::string& name);

/// Writes all of the header but its first word and its last fields.
void write_layout(pool_header& header, const pool_layout& layout);

} // namespace peercache::storage
