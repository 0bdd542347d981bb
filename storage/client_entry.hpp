#pragma once

#include "common/page_key.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace peercache::storage {

/// What the processes of a host say of one slot of their pool, as it lies in shared memory (little
/// endian; any change is another `pool_layout_version`):
///
///   offset  bytes  field
///        0     32  key         of the page that was filled into the slot
///       32      8  checksum    XXH3-64 of that page
///       40      4  length      of that page, bytes
///       44      4  filled      low half of the odd generation whose bytes, key, length and
///                              checksum are in place; 0: of none
///       48      4  uses        reads since the pool last folded them into its eviction order
///       52     12  reserved    zero
///
/// Threads: whoever fills the slot writes key, checksum, length and `filled` while the slot's
/// generation is odd; any reader on the host counts `uses`; the pool's owner takes back `filled`
/// and `uses`. A published page is described by its `slot_entry` alone, which only the owner
/// writes. Until then readers of the host believe this entry: after a stray write here the page may
/// be lost, or taken for complete or longer than it is, which only its checksum tells.
struct alignas(64) client_entry {
  page_key key;
  std::uint64_t checksum;
  std::uint32_t length_bytes;
  std::atomic<std::uint32_t> filled;
  std::atomic<std::uint32_t> uses;
  std::uint32_t reserved[3];
};

static_assert(sizeof(client_entry) == 64);
static_assert(offsetof(client_entry, checksum) == 32);
static_assert(offsetof(client_entry, length_bytes) == 40);
static_assert(offsetof(client_entry, filled) == 44);
static_assert(offsetof(client_entry, uses) == 48);

} // namespace peercache::storage
