#pragma once

#include "common/ids.hpp"
#include "common/page_key.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace peercache {

/// One entry of a pool's slot table, as it lies in shared memory and as a remote READ sees it
/// (little endian; any change is another `pool_layout_version` and another `verbs_wire_version`):
///
///   offset  bytes  field
///        0      8  generation  even: readable; odd: being filled or given up; odd with the
///                              highest bit: removed, and the bytes are not zeroed yet
///        8     32  key         of the page in the slot
///       40      4  length      of the page, bytes
///       44      4  pins        readers in the owner's process that send from the slot right now
///       48      8  checksum    XXH3-64 of the page
///       56      4  uses        reads since the pool last folded them into its eviction order;
///                              while the slot is being filled: the high bit, the granules less
///                              one that are kept for the slot (14 bits), and 17 bits of reads
///       60      4  filled      low half of the odd generation whose bytes, key, length and
///                              checksum are in place; 0: of none
///
/// Threads: only the pool's owner writes the generation; whoever fills the slot writes key, length,
/// checksum and `filled` while the generation is odd; any reader on the host counts `pins` and
/// `uses` up and down. `storage::slot_table` knows the order of stores that makes lock-free readers
/// safe.
struct alignas(64) slot_entry {
  std::atomic<std::uint64_t> generation;
  page_key key;
  std::uint32_t length_bytes;
  std::atomic<std::uint32_t> pins;
  std::uint64_t checksum;
  std::atomic<std::uint32_t> uses;
  std::atomic<std::uint32_t> filled;
};

static_assert(sizeof(slot_entry) == 64);
static_assert(offsetof(slot_entry, key) == 8);
static_assert(offsetof(slot_entry, length_bytes) == 40);
static_assert(offsetof(slot_entry, pins) == 44);
static_assert(offsetof(slot_entry, checksum) == 48);
static_assert(offsetof(slot_entry, uses) == 56);
static_assert(offsetof(slot_entry, filled) == 60);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

} // namespace peercache
