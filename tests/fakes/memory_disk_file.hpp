#pragma once

#include "storage/disk/io/disk_io.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <vector>

namespace peercache::storage {

/// Which changes that were not synced survive a loss of power: some at random, none, or all.
enum class survivors : std::uint8_t { some, none, all };

/// A file of `memory_disk_io`: the bytes that programs see, the bytes that are durable, and the
/// changes between the two. Each change has a number; later changes have larger numbers. Threads:
/// one at a time. Invariant: programs see what is durable with all changes applied.
class memory_disk_file {
public:
  /// The bytes of a write, immutable; blocks of files share them.
  using bytes_ptr = std::shared_ptr<const std::byte>;

  std::uint64_t bytes() const noexcept { return seen_.bytes; }
  /// Copies a range of the visible bytes into `into`. @pre the range is within the file
  void read(std::uint64_t offset_bytes, std::span<std::byte> into) const;

  /// Writes whole blocks; the file grows when the blocks lie behind its end. @pre the range is
  /// whole blocks
  void write(std::uint64_t order, std::uint64_t offset_bytes, std::uint64_t bytes, bytes_ptr from);
  void resize(std::uint64_t order, std::uint64_t bytes);
  /// Notes a write that is on its way at a loss of power. Programs do not see its bytes and no sync
  /// covers them, but `after_power_cut` may have them.
  void perhaps(std::uint64_t order, std::uint64_t offset_bytes, std::uint64_t bytes,
               bytes_ptr from);

  /// Makes changes with smaller numbers than `before` durable, except those of a failed sync.
  void sync(std::uint64_t before);
  /// Notes that a sync of changes before `before` has failed. As in Linux, no later sync makes them
  /// durable.
  void sync_failed(std::uint64_t before);

  /// Changes both the visible and the durable bytes. @pre the range is within the file
  void overwrite(std::uint64_t offset_bytes, std::span<const std::byte> from);

  /// Returns the file as a loss of power leaves it. `what` says which changes that are not durable
  /// survive; with `survivors::some` each one is kept or lost at random, and a write may be torn:
  /// only some of its sectors of 512 bytes are kept.
  memory_disk_file after_power_cut(std::mt19937_64& random, survivors what) const;

  /// Whether the file has a name; only then `memory_disk_names::used_bytes` counts it.
  bool named = false;

private:
  struct block {
    bytes_ptr bytes; ///< The bytes of the block; null means zeros.
    std::uint64_t order = 0;
  };
  struct image {
    std::uint64_t bytes = 0;
    std::uint64_t bytes_order = 0; ///< Number of the change that `bytes` comes from.
    std::vector<block> blocks;

    void resize(std::uint64_t order, std::uint64_t to);
    void put(std::uint64_t order, std::uint64_t at, bytes_ptr from);
    void overwrite(std::uint64_t offset_bytes, std::span<const std::byte> from);
  };
  struct change {
    std::uint64_t order = 0;
    bool is_resize = false;
    std::uint64_t offset_bytes = 0;
    std::uint64_t bytes = 0; ///< Length of a write; for a resize, the new length of the file.
    bytes_ptr from;
    /// Whether the change's sync has failed: no later sync makes the change durable.
    bool doomed = false;
  };

  static void apply(image& to, const change& what);
  static void apply_torn(image& to, const change& what, std::mt19937_64& random);

  image seen_;
  image durable_;
  std::vector<change> changes_;
};

} // namespace peercache::storage
