#pragma once

#include "common/page_key.hpp"
#include "storage/slot_table.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace peercache::storage {

/// Where each page of a pool lies, for all processes of its host: a hash table in the pool's shared
/// memory that whoever fills a slot writes to itself, so that a page is found from there on without
/// any message. A view, cheap to copy; the memory belongs to a `pool_memory`.
///
/// A bucket is one cache line of 8 cells; a key has two buckets. A cell is 8 bytes (little endian;
/// bump `pool_layout_version` with any change):
///
///   offset  bytes  field
///        0      4  slot of the page
///        4      4  tag: bits of the key's hash, never 0; a cell that is 0 is empty
///
/// A cell is a hint and the slot's entry the truth: who finds one compares the entry's key. The
/// pool's owner takes out what is gone, to keep the buckets even; what a filler that was killed
/// left is overwritten when its place is wanted.
///
/// Threads: any, of any process that maps the pool. A cell changes in one compare-and-swap: a
/// process that is killed anywhere leaves nothing half done. Bound: 16 bytes a granule, 0.4 % of
/// the pool; a page whose two buckets are full of pages that are there is not in the index, and
/// found through the directory only.
class host_index {
public:
  static constexpr std::size_t cells_per_bucket = 8;
  struct alignas(64) bucket {
    std::array<std::atomic<std::uint64_t>, cells_per_bucket> cells;
  };
  static_assert(sizeof(bucket) == 64);

  /// Two cells for each page that the pool can hold.
  static std::uint32_t buckets_for(std::uint32_t granules) noexcept;

  /// Finds nothing and takes nothing.
  host_index() = default;
  /// @param buckets all zero, or of a pool with these slots
  host_index(std::span<bucket> buckets, slot_table slots) noexcept;

  struct page {
    slot_id slot;
    slot_contents contents;
  };
  /// A complete page of this key, published or only filled; of this length, unless that is 0.
  std::optional<page> find(const page_key& key, std::uint32_t length_bytes = 0) const noexcept;

  /// `slot` holds a complete page of this key. False: there was no room.
  bool insert(const page_key& key, slot_id slot) noexcept;

  /// `slot` holds no page of this key any more, and readers cannot take it for one.
  void erase(const page_key& key, slot_id slot) noexcept;

  /// Finds nothing from here on but what is inserted anew. For a new owner, before it serves.
  void clear() noexcept;

  /// Starts loading what `find` and `insert` of this key will look at first.
  void prefetch(const page_key& key) const noexcept;

private:
  struct place {
    std::array<std::uint32_t, 2> buckets;
    std::uint32_t tag = 0;
  };
  place place_of(const page_key& key) const noexcept;
  /// Whether some reader may find a page by this cell.
  bool is_live(std::uint64_t cell, std::uint32_t in_bucket) const noexcept;
  bool holds(const place& at, std::uint64_t cell) const noexcept;
  /// An empty cell in the emptier bucket; null when both are full.
  std::atomic<std::uint64_t>* empty_cell(const place& at) const noexcept;
  /// A cell whose page is gone, and what it held; null when there is none.
  std::atomic<std::uint64_t>* dead_cell(const place& at, std::uint64_t& held) const noexcept;

  std::span<bucket> buckets_;
  slot_table slots_;
};

} // namespace peercache::storage
