#pragma once

#include "common/key_epoch.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace peercache::storage {

/// The memory of an epoch_table: 65,600 bytes of a pool's shared memory (little endian; bump
/// `pool_layout_version` with any change). All zero: nothing was ever cleared.
///
///   offset  bytes  field
///        0      8  changes   twice the number of changes; odd while a change is being made
///        8      4  floor     the lowest epoch that a space can have
///       12      4  closed    1: the node is outside its cluster, nobody may read the pool
///       16     48  reserved  zero
///       64     16  a cell, 4096 times: 8 bytes space (0: empty), 4 bytes epoch, 4 bytes zero
struct epoch_block {
  struct cell {
    std::atomic<std::uint64_t> space;
    std::atomic<epoch_number> epoch;
    std::uint32_t reserved;
  };
  static constexpr std::size_t cell_count = 4096;

  std::atomic<std::uint64_t> changes;
  std::atomic<epoch_number> floor;
  std::atomic<std::uint32_t> closed;
  std::uint32_t reserved[12];
  std::array<cell, cell_count> cells;
};
static_assert(sizeof(epoch_block::cell) == 16 && offsetof(epoch_block, cells) == 64);
static_assert(sizeof(epoch_block) == 64 + 16 * epoch_block::cell_count);

/// The epoch of each space that was ever cleared, for all processes of a host: they all see a new
/// epoch in the moment in which their node raises it. A view, cheap to copy; the memory is a
/// `pool_memory`'s.
///
/// Threads: only the node calls `raise`, `raise_floor`, `open` and `close`, one thread at a time;
/// all other methods may be called by any thread of any process that maps the pool. Bound: 3072
/// spaces have an epoch of their own; when there is no room for another space, the floor takes the
/// place of all cells (`raise`).
/// Invariant: no epoch ever falls, also when the node dies in a change.
class epoch_table {
public:
  /// The most spaces that may have an epoch of their own: a quarter of the cells stays empty, so
  /// that a reader's search for a space ends in a few steps.
  static constexpr std::size_t spaces_max = epoch_block::cell_count / 4 * 3;
  /// An epoch that no page has; `epoch_of` returns it when a change of the table does not end.
  static constexpr epoch_number no_epoch = 0xffffffff;

  /// A view of no table: no page is ever old.
  epoch_table() = default;
  explicit epoch_table(epoch_block& block) noexcept : block_(&block) {}

  /// Whether the view has a table to look into.
  bool exists() const noexcept { return block_ != nullptr; }
  /// Whether nothing was ever cleared. As long as that is so, keys need no epoch and stay as
  /// callers make them.
  bool untouched() const noexcept { return changes() == 0; }
  /// A number that grows with each change; 0: there was none.
  std::uint64_t changes() const noexcept {
    return block_ == nullptr ? 0 : block_->changes.load(std::memory_order_acquire);
  }
  epoch_number epoch_of(space_id space) const noexcept;
  /// Whether the key's epoch is lower than that of its space: then nobody may have the page. False
  /// while a change of the table does not end, because the owner looks for old pages after each
  /// change.
  bool is_old(const page_key& key) const noexcept;

  /// Raises the epoch of a space to at least `epoch`. When there is no room for another space, the
  /// floor rises to the highest epoch of all instead, and all pages of every space that were set
  /// before are misses. False when nothing had to change.
  bool raise(space_id space, epoch_number epoch);
  /// Raises the epoch of every space to at least `floor`; spaces with a lower epoch leave their
  /// cells. False when nothing had to change.
  bool raise_floor(epoch_number floor);

  /// Marks the pool as closed: its node has left the cluster and no longer hears of clears. Nobody
  /// may read the pool as long as its memory lives, or until a successor opens it.
  void close() noexcept;
  /// Opens the pool for readers, when the node knows what was cleared. Ends a change that an
  /// earlier node died in.
  void open() noexcept;
  bool closed() const noexcept {
    return block_ != nullptr && block_->closed.load(std::memory_order_acquire) != 0;
  }

  /// Copies the table to `to`, for a reader that outlives this table's memory. @pre `to` is all
  /// zero
  void copy_to(epoch_block& to) const;

  /// Calls `visit(space_id, epoch_number)` for each space with an epoch of its own.
  template <class Visitor>
  void for_each(Visitor&& visit) const {
    for (std::size_t i = 0; block_ != nullptr && i < block_->cells.size(); ++i)
      if (const auto& cell = block_->cells[i]; cell.space.load() != 0)
        visit(space_id{cell.space.load()}, cell.epoch.load());
  }
  epoch_number floor() const noexcept { return block_ == nullptr ? 0 : block_->floor.load(); }

private:
  class change;
  epoch_block::cell* place_of(space_id space) const noexcept;
  epoch_number look(space_id space) const noexcept;

  epoch_block* block_ = nullptr;
};

} // namespace peercache::storage
