#pragma once

#include "storage/disk/io/disk_io.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <vector>

namespace peercache::storage {

/// How much a loss of power leaves of bytes that were not synced.
enum class survivors : std::uint8_t { some, none, all };

/// A file of `memory_disk_io`: what programs see of it, what of it is durable, and the changes
/// between the two. Each change has a number; later ones are larger.
/// Threads: one at a time. Invariant: programs see what is durable with all changes applied.
class memory_disk_file {
public:
  /// Bytes that nobody changes any more; a file's blocks point into them.
  using bytes_ptr = std::shared_ptr<const std::byte>;

  std::uint64_t bytes() const noexcept { return seen_.bytes; }
  /// @pre the range is within the file
  void read(std::uint64_t offset_bytes, std::span<std::byte> into) const;

  /// @pre whole blocks; the file grows when they lie behind its end
  void write(std::uint64_t order, std::uint64_t offset_bytes, std::uint64_t bytes, bytes_ptr from);
  void resize(std::uint64_t order, std::uint64_t bytes);
  /// A write that was on its way when power was lost: nobody has seen it, no sync covers it, it may
  /// be there.
  void perhaps(std::uint64_t order, std::uint64_t offset_bytes, std::uint64_t bytes,
               bytes_ptr from);

  /// Changes with smaller numbers are durable from now on, but for those of a failed sync.
  void sync(std::uint64_t before);
  /// A sync has failed. As in Linux, no later sync makes durable what this one was to.
  void sync_failed(std::uint64_t before);

  /// Changes both the visible and the durable bytes. @pre the range is within the file
  void overwrite(std::uint64_t offset_bytes, std::span<const std::byte> from);

  /// The file after a loss of power: changes that are not durable are there, not there, or, a
  /// write, in sectors of 512 bytes.
  memory_disk_file after_power_cut(std::mt19937_64& random, survivors what) const;

  bool named = false; ///< Counts for `memory_disk_names::used_bytes`.

private:
  struct block {
    bytes_ptr bytes; ///< None: zeros.
    std::uint64_t order = 0;
  };
  struct image {
    std::uint64_t bytes = 0;
    std::uint64_t bytes_order = 0; ///< The order of the change that the length comes from.
    std::vector<block> blocks;

    void resize(std::uint64_t order, std::uint64_t to);
    void put(std::uint64_t order, std::uint64_t at, bytes_ptr from);
    void overwrite(std::uint64_t offset_bytes, std::span<const std::byte> from);
  };
  struct change {
    std::uint64_t order = 0;
    bool is_resize = false;
    std::uint64_t offset_bytes = 0;
    std::uint64_t bytes = 0; ///< For a resize: the new length.
    bytes_ptr from;
    bool doomed = false; ///< No sync makes the change durable.
  };

  static void apply(image& to, const change& what);
  static void apply_torn(image& to, const change& what, std::mt19937_64& random);

  image seen_;
  image durable_;
  std::vector<change> changes_;
};

} // namespace peercache::storage
