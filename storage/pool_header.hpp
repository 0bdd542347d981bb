#pragma once

#include "common/ids.hpp"
#include "common/limits.hpp"
#include "common/slot_entry.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace peercache::storage {

/// The first 4 KiB of a pool's shared memory object. All other parts are found from here:
///
///   offset  bytes  field
///        0      8  magic           "PCPOOL\0\0"; written last, so that an object without it is not
///        ready 8      4  layout_version  of this header and of `slot_entry`
///       12      4  granule_bytes   4096
///       16     16  owner           incarnation of the node that made the pool: high, low
///       32      4  granules        number of slot entries and of 4 KiB granules
///       36      4  reserved        zero
///       40      8  table_offset    of the slot table in the object
///       48      8  pages_offset    of the first granule
///       56      8  object_bytes    of the whole object
///
/// Locks (open file description locks; they need no bytes behind them): byte 0 is held by the owner
/// for its life, byte 4096 + i by the client process of session i for its life.
struct pool_header {
  std::atomic<std::uint64_t> magic;
  std::uint32_t layout_version;
  std::uint32_t granule_bytes;
  incarnation owner;
  std::uint32_t granules;
  std::uint32_t reserved;
  std::uint64_t table_offset;
  std::uint64_t pages_offset;
  std::uint64_t object_bytes;
};

inline constexpr std::uint64_t pool_magic = 0x00004c4f4f504350; // "PCPOOL\0\0", little endian
inline constexpr std::uint32_t pool_layout_version = 1;
inline constexpr std::uint32_t pool_header_bytes = 4096;
inline constexpr std::uint32_t sessions_max = 1u << 20; ///< Indices of session locks.

static_assert(offsetof(pool_header, magic) == 0);
static_assert(offsetof(pool_header, layout_version) == 8);
static_assert(offsetof(pool_header, granule_bytes) == 12);
static_assert(offsetof(pool_header, owner) == 16);
static_assert(offsetof(pool_header, granules) == 32);
static_assert(offsetof(pool_header, table_offset) == 40);
static_assert(offsetof(pool_header, pages_offset) == 48);
static_assert(offsetof(pool_header, object_bytes) == 56);
static_assert(sizeof(pool_header) == 64 && sizeof(pool_header) <= pool_header_bytes);
static_assert(sizeof(incarnation) == 16);

} // namespace peercache::storage
