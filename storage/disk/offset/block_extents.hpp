#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace peercache::storage {

/// Which blocks of a file are free: best fit, the lowest of the best. Neighbours are joined when
/// they are freed.
///
/// Memory and time go with the number of holes, not with the size of the file, which may be far
/// larger than a pool (see extent_allocator).
///
/// Threads: one. Units: blocks of disk_block_bytes. Errors: no room is an empty optional; freeing
/// what is free, or taking what is not, is an assertion.
class block_extents {
public:
  /// None is free. @param blocks Of the file.
  explicit block_extents(std::uint64_t blocks) : blocks_(blocks) {}

  std::optional<std::uint64_t> allocate(std::uint64_t count);
  /// Takes exactly these blocks. @pre they are free
  void take(std::uint64_t first, std::uint64_t count);
  /// @pre they are within the file, and none of them is free
  void free(std::uint64_t first, std::uint64_t count);

  std::uint64_t blocks() const noexcept { return blocks_; }
  std::uint64_t free_blocks() const noexcept { return free_blocks_; }
  /// Consecutive ones.
  std::uint64_t largest() const noexcept;
  /// Free blocks in holes of less than `count` blocks.
  std::uint64_t free_in_smaller(std::uint64_t count) const noexcept;
  std::size_t holes() const noexcept { return by_start_.size(); }

private:
  using starts = std::map<std::uint64_t, std::uint64_t>;
  void add(std::uint64_t first, std::uint64_t count);
  void cut(starts::iterator hole, std::uint64_t first, std::uint64_t count);

  std::uint64_t blocks_;
  std::uint64_t free_blocks_ = 0;
  starts by_start_; ///< First block, how many.
  /// Free extents: how many blocks, first block.
  std::set<std::pair<std::uint64_t, std::uint64_t>> by_count_;
};

} // namespace peercache::storage
