#pragma once

#include "directory/shard_layout.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>

namespace peercache::directory {

/// The memory of one shard (directory/shard_layout.hpp): a range of addresses that is reserved when
/// the object is made, and gets memory from its beginning on as units are allocated. Units are
/// zero at first, and neither move nor end while this object lives.
///
/// Threads: `allocate` and `on_grown` the writer's; units may be read by any thread, by their
/// atomics. Errors: `allocate` throws `std::bad_alloc`; so does the constructor when no addresses
/// are left.
class shard_memory {
public:
  /// Called with each further piece of memory, before a unit in it is given out.
  using grown = std::function<void(std::span<std::byte> piece)>;

  /// @param units_max units that can ever be allocated
  /// @param file of a shared memory object that is long enough, in which the memory lies; negative:
  /// the memory is this process's own. The file is lent.
  explicit shard_memory(std::uint64_t units_max, int file = -1);
  shard_memory(shard_memory&& from) noexcept;
  shard_memory& operator=(shard_memory&& from) noexcept;
  ~shard_memory();

  /// Gives `count` units that follow each other; returns the number of the first one.
  unit_number allocate(std::uint64_t count);
  /// Calls `tell` with the memory that there is, and from now on with each further piece.
  void on_grown(grown tell);

  shard_unit& at(unit_number unit) noexcept { return base_[unit]; }
  const shard_unit& at(unit_number unit) const noexcept { return base_[unit]; }
  const shard_unit* base() const noexcept { return base_; }
  std::uint64_t units() const noexcept { return used_; }
  /// Units, from the first one on, that lie in the file. No more are added when the file system is
  /// full: the memory is this process's own from there on.
  std::uint64_t shared_units() const noexcept { return shared_; }
  std::uint64_t bytes() const noexcept { return used_ * shard_unit_bytes; }

private:
  void commit(std::uint64_t units);
  bool share(std::uint64_t piece) noexcept;
  void release() noexcept;

  shard_unit* base_ = nullptr;
  std::uint64_t reserved_ = 0;  ///< Units for which there are addresses.
  std::uint64_t committed_ = 0; ///< Units for which there is memory.
  std::uint64_t used_ = 0;      ///< Units that were given out.
  std::uint64_t shared_ = 0;
  int file_ = -1; ///< Negative: further memory is this process's own.
  grown tell_;
};

} // namespace peercache::directory
