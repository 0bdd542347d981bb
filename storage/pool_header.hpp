#pragma once

#include "common/ids.hpp"
#include "common/limits.hpp"
#include "common/slot_entry.hpp"
#include "storage/epoch_table.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace peercache::storage {

/// The beginning of a pool's shared memory object. This header, the `epoch_block` of its host
/// (storage/epoch_table.hpp) at byte 4096, and the owner's note (storage/pool_note.hpp) behind it
/// take 72 KiB together. The header says where all other parts are:
///
///   offset  bytes  field
///        0      8  magic           "PCPOOL\0\0", written last; until then "PCMAKE\0\0"
///        8      4  layout_version  version of this header and of all formats in the object
///       12      4  granule_bytes   4096
///       16     16  owner           incarnation of the node that owns the pool: high, low
///       32      4  granules        number of slot entries and of 4 KiB granules
///       36      4  index_buckets   number of buckets of the host index, 64 bytes each
///       40      8  table_offset    where the slot table begins in the object
///       48      8  pages_offset    where the first granule begins
///       56      8  object_bytes    size of the whole object
///       64      8  index_offset    where the host index begins: before the table, because other
///                                  hosts READ table and pages
///       72      8  maker           digest of the names of the cluster and node that made the pages
///       80      4  first_session   index of the lock of the owner's session 0
///       84      4  prefix          digest of pool.name_prefix: only processes with this prefix
///                                  remove the pool when it is a leftover
///       88      8  holds_offset    where the holds' account and words (storage/hold_table.hpp)
///                                  begin: behind the index
///       96      8  clients_offset  where the entries that clients write (storage/client_entry.hpp)
///                                  begin: between holds and table
///      104      8  held_granules_max
///                                  granules of pages that may be held against eviction at a time
///
/// Clients map this header, with all that is in the first 72 KiB, and the slot table read-only: a
/// stray write of an engine there ends the engine. So both begin and end at multiples of 64 KiB (of
/// a huge page, if the object has those), the largest pages of kernels.
///
/// Locks (open file description locks; they need no bytes behind them): byte 0 is held by the owner
/// for its life, byte 4096 + first_session + i by the client process of session i for its life. A
/// node that takes the pool of a dead one over raises `first_session` by `sessions_per_owner`: a
/// process that holds the lock of another index is a client of an earlier node.
struct pool_header {
  std::atomic<std::uint64_t> magic;
  std::uint32_t layout_version;
  std::uint32_t granule_bytes;
  incarnation owner;
  std::uint32_t granules;
  std::uint32_t index_buckets;
  std::uint64_t table_offset;
  std::uint64_t pages_offset;
  std::uint64_t object_bytes;
  std::uint64_t index_offset;
  std::uint64_t maker;
  std::uint32_t first_session;
  std::uint32_t prefix;
  std::uint64_t holds_offset;
  std::uint64_t clients_offset;
  std::atomic<std::uint64_t> held_granules_max;
};

// The bytes "PCPOOL\0\0" as a little-endian number.
inline constexpr std::uint64_t pool_magic = 0x00004c4f4f504350;
// The bytes "PCMAKE\0\0" as a little-endian number.
inline constexpr std::uint64_t unfinished_pool_magic = 0x0000454b414d4350;
inline constexpr std::uint32_t pool_layout_version = 8;
inline constexpr std::uint32_t epoch_block_offset = 4096;
/// Bytes in front of the pool's other parts: header, epoch block and owner's note.
inline constexpr std::uint32_t pool_header_bytes = 72u << 10;
/// The number of indices for session locks; `first_session` begins again at 0 when it would reach
/// this number.
inline constexpr std::uint32_t sessions_max = 1u << 20;
/// How many sessions one owner of the pool may have.
inline constexpr std::uint32_t sessions_per_owner = 1u << 10;

static_assert(offsetof(pool_header, magic) == 0);
static_assert(offsetof(pool_header, layout_version) == 8);
static_assert(offsetof(pool_header, granule_bytes) == 12);
static_assert(offsetof(pool_header, owner) == 16);
static_assert(offsetof(pool_header, granules) == 32);
static_assert(offsetof(pool_header, table_offset) == 40);
static_assert(offsetof(pool_header, pages_offset) == 48);
static_assert(offsetof(pool_header, object_bytes) == 56);
static_assert(offsetof(pool_header, index_offset) == 64);
static_assert(offsetof(pool_header, maker) == 72);
static_assert(offsetof(pool_header, first_session) == 80);
static_assert(offsetof(pool_header, prefix) == 84);
static_assert(offsetof(pool_header, holds_offset) == 88);
static_assert(offsetof(pool_header, clients_offset) == 96);
static_assert(offsetof(pool_header, held_granules_max) == 104);
static_assert(sessions_max % sessions_per_owner == 0);
static_assert(sizeof(pool_header) == 112 && sizeof(pool_header) <= pool_header_bytes);
static_assert(sizeof(incarnation) == 16);
static_assert(sizeof(pool_header) <= epoch_block_offset);
static_assert(epoch_block_offset + sizeof(epoch_block) <= pool_header_bytes);

} // namespace peercache::storage
