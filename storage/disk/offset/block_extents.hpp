#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace peercache::storage {

/// Keeps which blocks of a file are free and chooses extents by best fit: the smallest hole that is
/// large enough, and the lowest one of several. Neighbouring holes are joined when blocks are
/// freed.
///
/// Memory and time go with the number of holes, not with the size of the file, which may be far
/// larger than a pool (see extent_allocator).
///
/// Threads: one. Units: blocks of disk_block_bytes. Errors: no room is an empty optional; freeing
/// what is free, or taking what is not, is an assertion.
class block_extents {
public:
  /// No block is free at first. @param blocks The number of blocks in the file.
  explicit block_extents(std::uint64_t blocks) : blocks_(blocks) {}

  std::optional<std::uint64_t> allocate(std::uint64_t count);
  /// Takes exactly these blocks. @pre all of them are free
  void take(std::uint64_t first, std::uint64_t count);
  /// Frees blocks. @pre they are within the file, and none of them is free
  void free(std::uint64_t first, std::uint64_t count);

  std::uint64_t blocks() const noexcept { return blocks_; }
  std::uint64_t free_blocks() const noexcept { return free_blocks_; }
  /// The most blocks that lie free one behind the other.
  std::uint64_t largest() const noexcept;
  /// The number of free blocks in holes of fewer than `count` blocks.
  std::uint64_t free_in_smaller(std::uint64_t count) const noexcept;
  std::size_t holes() const noexcept { return by_start_.size(); }

private:
  using starts = std::map<std::uint64_t, std::uint64_t>;
  void add(std::uint64_t first, std::uint64_t count);
  void cut(starts::iterator hole, std::uint64_t first, std::uint64_t count);

  std::uint64_t blocks_;
  std::uint64_t free_blocks_ = 0;
  starts by_start_; ///< The holes: first block -> number of blocks.
  /// The holes again, by size: number of blocks, first block.
  std::set<std::pair<std::uint64_t, std::uint64_t>> by_count_;
};

} // namespace peercache::storage
