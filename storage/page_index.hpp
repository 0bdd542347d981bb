#pragma once

#include "storage/slot_table.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace peercache::storage {

/// Finds the slot that holds a key: open addressing, 8 bytes per cell. The keys themselves stand in
/// the slot table.
///
/// A cell's home follows from its 32-bit tag, so growing the table reads the cells in order and
/// none of the keys. Threads: one (the pool's owner). Memory: at most 75 % full; grows twofold,
/// never shrinks. Errors: inserting a key that is in the index, or erasing one that is not, is an
/// assertion.
class page_index {
public:
  explicit page_index(slot_table slots);

  std::optional<slot_id> find(const page_key& key) const noexcept;

  /// @pre `key` is not in the index; the entry of `slot` holds `key` from here on until `erase`
  void insert(const page_key& key, slot_id slot);

  /// @pre `key` is in the index, at `slot`
  void erase(const page_key& key, slot_id slot) noexcept;

  std::uint64_t size() const noexcept { return size_; }
  std::uint64_t bytes() const noexcept { return cells_.size() * sizeof(cell); }

private:
  struct cell {
    std::uint32_t tag = 0;
    std::uint32_t slot_plus_one = 0; ///< The slot's number plus one; 0: the cell is empty.
  };
  static_assert(sizeof(cell) == 8);

  static std::uint32_t tag_of(const page_key& key) noexcept;
  std::uint64_t home_of(std::uint32_t tag) const noexcept { return tag >> (32 - bits_); }
  std::uint64_t next(std::uint64_t at) const noexcept { return (at + 1) & (cells_.size() - 1); }
  void place(cell value) noexcept;
  void grow();

  slot_table slots_;
  std::vector<cell> cells_;
  std::uint64_t size_ = 0;
  std::uint32_t bits_;
};

} // namespace peercache::storage
