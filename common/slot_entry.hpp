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
///       56      4  filling     granules that are kept for the slot while it is being filled;
///                              0: it is not being filled
///       60      4  reserved    zero
///
/// Threads: only the pool's owner writes, so that the table can be read-only for all others. What
/// other processes of the host say of a slot is in `storage::client_entry`. `storage::slot_table`
/// knows the order of stores that makes lock-free readers safe.
struct alignas(64) slot_entry {
  std::atomic<std::uint64_t> generation;
  page_key key;
  std::uint32_t length_bytes;
  std::atomic<std::uint32_t> pins;
  std::uint64_t checksum;
  std::atomic<std::uint32_t> filling;
  std::uint32_t reserved;
};

static_assert(sizeof(slot_entry) == 64);
static_assert(offsetof(slot_entry, key) == 8);
static_assert(offsetof(slot_entry, length_bytes) == 40);
static_assert(offsetof(slot_entry, pins) == 44);
static_assert(offsetof(slot_entry, checksum) == 48);
static_assert(offsetof(slot_entry, filling) == 56);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

} // namespace peercache
