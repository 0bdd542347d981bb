#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace peercache::storage {

/// Mixes the bits of a digest whose bits are used piece by piece. Bijective (the finalizer of
/// MurmurHash3).
constexpr std::uint64_t mixed(std::uint64_t value) noexcept {
  value = (value ^ (value >> 33)) * 0xff51afd7ed558ccdULL;
  value = (value ^ (value >> 33)) * 0xc4ceb9fe1a85ec53ULL;
  return value ^ (value >> 33);
}

/// Finds a 32-bit number by a 32-bit hash, by open addressing with linear probing. The things that
/// the numbers stand for lie with the owner, who hands in how to compare and how to hash them.
/// Removal shifts later numbers back instead of leaving tombstones, because the table lives as long
/// as the pool.
///
/// Threads: one. Size: 5.3 to 7.1 bytes per number (at most 3/4 full, grows by a third, never
/// shrinks).
class probe_cells {
public:
  static constexpr std::uint32_t none = 0xffffffff;

  /// The number with this hash for which `is_it` holds; `none` when there is none.
  template <class Predicate>
  std::uint32_t find(std::uint32_t hash, Predicate is_it) const {
    if (cells_.empty()) {
      return none;
    }
    std::size_t cell = home_of(hash);
    while (cells_[cell] != none && !is_it(cells_[cell])) {
      cell = after(cell);
    }
    return cells_[cell];
  }

  bool has_room_for(std::size_t count) const noexcept { return count * 4 <= cells_.size() * 3; }

  /// Makes room for `count` numbers and a third more; `hash_of` gives the hash of a number in the
  /// table.
  template <class HashOf>
  void grow(std::size_t count, HashOf hash_of) {
    const std::size_t size = count * 16 / 9 + 8;
    for (const std::uint32_t number :
         std::exchange(cells_, std::vector<std::uint32_t>(size, none))) {
      if (number != none) {
        insert(hash_of(number), number);
      }
    }
  }

  /// @pre the table has room, and `number` is not in it
  void insert(std::uint32_t hash, std::uint32_t number) noexcept {
    std::size_t cell = home_of(hash);
    while (cells_[cell] != none) {
      cell = after(cell);
    }
    cells_[cell] = number;
  }

  /// @pre `number` is in the table with this hash
  template <class HashOf>
  void erase(std::uint32_t hash, std::uint32_t number, HashOf hash_of) noexcept {
    std::size_t hole = home_of(hash);
    while (cells_[hole] != number) {
      hole = after(hole);
    }
    for (std::size_t cell = after(hole); cells_[cell] != none; cell = after(cell)) {
      if (distance(home_of(hash_of(cells_[cell])), cell) >= distance(hole, cell)) {
        cells_[hole] = cells_[cell];
        hole = cell;
      }
    }
    cells_[hole] = none;
  }

  const std::vector<std::uint32_t>& cells() const noexcept { return cells_; }
  std::size_t memory_bytes() const noexcept { return cells_.capacity() * sizeof(cells_[0]); }

private:
  /// The cell in which the search for a hash begins: maps 32 bits onto the cells without a
  /// division.
  std::size_t home_of(std::uint32_t hash) const noexcept {
    return static_cast<std::size_t>((std::uint64_t{hash} * cells_.size()) >> 32);
  }
  std::size_t after(std::size_t cell) const noexcept {
    return cell + 1 == cells_.size() ? 0 : cell + 1;
  }
  std::size_t distance(std::size_t from, std::size_t to) const noexcept {
    return to >= from ? to - from : to + cells_.size() - from;
  }

  std::vector<std::uint32_t> cells_;
};

} // namespace peercache::storage
