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
/// memory. Whoever fills a slot writes to the table itself, so that a page is found from then on
/// without any message. A view, cheap to copy; the memory belongs to a `pool_memory`.
///
/// A bucket is one cache line of 8 cells; a key has two buckets. A cell is 8 bytes (little endian;
/// bump `pool_layout_version` with any change):
///
///   offset  bytes  field
///        0      4  slot of the page
///        4      4  tag: bits of the key's hash, never 0; a cell that is 0 is empty
///
/// A cell is a hint and the slot's entry is the truth: whoever finds a cell compares the key in the
/// entry. The pool's owner removes the cells of pages that are gone, to keep the buckets even; a
/// cell that a killed filler left is overwritten when its place is wanted.
///
/// Threads: any, of any process that maps the pool. A cell changes in one compare-and-swap: a
/// process that is killed anywhere leaves nothing half done. Bound: 16 bytes per granule, 0.4 % of
/// the pool. A page whose two buckets are full of live pages is not in the index and is found
/// through the directory only.
class host_index {
public:
  static constexpr std::size_t cells_per_bucket = 8;
  struct alignas(64) bucket {
    std::array<std::atomic<std::uint64_t>, cells_per_bucket> cells;
  };
  static_assert(sizeof(bucket) == 64);

  /// The number of buckets for a pool: two cells for each page that it can hold.
  static std::uint32_t buckets_for(std::uint32_t granules) noexcept;

  /// An index without memory: it finds nothing and takes nothing.
  host_index() = default;
  /// @param buckets All zero, or the buckets of an index of the same slots.
  host_index(std::span<bucket> buckets, slot_table slots) noexcept;

  struct page {
    slot_id slot;
    slot_contents contents;
  };
  /// Finds a complete page of this key, published or only filled, and of this length unless that is
  /// 0.
  std::optional<page> find(const page_key& key, std::uint32_t length_bytes = 0) const noexcept;

  /// Notes that `slot` holds a complete page of this key. False: the buckets had no room.
  bool insert(const page_key& key, slot_id slot) noexcept;

  /// Removes the cell of a page. @pre readers can no longer take `slot` for a page of this key
  void erase(const page_key& key, slot_id slot) noexcept;

  /// Empties the index; it finds nothing but what is inserted anew. For a new owner, before it
  /// serves.
  void clear() noexcept;

  /// Starts loading the cache lines at which `find` and `insert` of this key will look first.
  void prefetch(const page_key& key) const noexcept;

private:
  struct place {
    std::array<std::uint32_t, 2> buckets;
    std::uint32_t tag = 0;
  };
  place place_of(const page_key& key) const noexcept;
  /// Whether some reader may still find a page through this cell of bucket `in_bucket`.
  bool is_live(std::uint64_t cell, std::uint32_t in_bucket) const noexcept;
  bool holds(const place& at, std::uint64_t cell) const noexcept;
  /// An empty cell in the emptier one of the key's two buckets; null when both are full.
  std::atomic<std::uint64_t>* empty_cell(const place& at) const noexcept;
  /// A cell whose page is gone; `held` gets the cell's content. Null when there is none.
  std::atomic<std::uint64_t>* dead_cell(const place& at, std::uint64_t& held) const noexcept;

  std::span<bucket> buckets_;
  slot_table slots_;
};

} // namespace peercache::storage
