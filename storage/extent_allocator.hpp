#pragma once

#include "common/limits.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

namespace peercache::storage {

/// Knows which granules of a pool are free, and places a page of n consecutive granules: best fit
/// over exact size bins, and neighbouring free extents are joined at once.
///
/// Among the extents that fit, one that offers a start at a multiple of n is preferred (an extent
/// of exactly n granules before any other). Pages of one size then lie on a grid, so when the
/// pool's page size changes, freed pages join to extents that hold pages of the new size.
///
/// The allocator's bookkeeping lies outside the pool: 12 bytes per granule. Each operation is O(1):
/// a bin is found through a bitmap of two levels. Nothing is allocated after construction.
///
/// Threads: one (the pool's owner). Units: granules of 4 KiB; indices are granule numbers.
/// Errors: no room is an empty optional; freeing what is free is an assertion.
/// Invariants: (1) no two free extents touch; (2) a granule is in at most one extent or page.
class extent_allocator {
public:
  explicit extent_allocator(std::uint32_t granules);

  /// Takes `count` consecutive granules and returns the first; nothing when no extent is long
  /// enough. @pre 1 <= count <= limits::granules_per_page_max
  std::optional<std::uint32_t> allocate(std::uint32_t count);

  /// Takes exactly these granules. @pre they lie in the free extent that starts at `extent`
  void allocate_at(std::uint32_t extent, std::uint32_t first, std::uint32_t count);

  /// Frees granules. Returns the first granule of the free extent that they are part of now.
  std::uint32_t free(std::uint32_t first, std::uint32_t count);

  /// The number of granules of the free extent that starts at `granule`; 0 when none starts there.
  std::uint32_t extent_at(std::uint32_t granule) const noexcept { return notes_[granule].size; }

  std::uint32_t granules() const noexcept { return granules_; }
  std::uint32_t free_granules() const noexcept { return free_granules_; }
  std::uint32_t extents() const noexcept { return extents_; }

private:
  /// Extents of n granules are in bin n - 1; the last bin has all extents of the largest page's
  /// length or more.
  static constexpr std::uint32_t bins = limits::granules_per_page_max;
  static constexpr std::uint32_t none = UINT32_MAX;
  static constexpr std::uint32_t bitmap_words = bins / 64;
  static_assert(bins % 64 == 0 && bitmap_words % 64 == 0);

  struct note {
    /// At an extent's first granule: how many granules it has; 0 elsewhere.
    std::uint32_t size = 0;
    /// At an extent's first granule: the first granule of the bin's next extent.
    std::uint32_t next = none;
    /// At an extent's first granule: the first granule of the bin's previous extent. At the last
    /// granule of an extent of two or more: the extent's first granule.
    std::uint32_t previous = none;
  };

  static std::uint32_t bin_of(std::uint32_t count) noexcept;
  static std::uint32_t aligned_start(std::uint32_t extent, std::uint32_t count) noexcept;
  bool offers_aligned(std::uint32_t extent, std::uint32_t count) const noexcept;
  std::uint32_t first_bin_from(std::uint32_t bin) const noexcept;
  std::uint32_t choose(std::uint32_t count) const noexcept;
  void link(std::uint32_t first, std::uint32_t count) noexcept;
  void unlink(std::uint32_t first) noexcept;
  /// First granule of the free extent that ends just before `granule`, or `none`.
  std::uint32_t extent_before(std::uint32_t granule) const noexcept;

  // Members that are constant after construction.
  std::uint32_t granules_;
  // Members that the owner's thread uses.
  std::uint32_t free_granules_ = 0;
  std::uint32_t extents_ = 0;
  std::vector<note> notes_;
  std::vector<bool> ends_; ///< True at the last granule of each free extent.
  std::vector<std::uint32_t> heads_;
  std::array<std::uint64_t, bitmap_words> occupied_{};
  std::array<std::uint64_t, bitmap_words / 64> occupied_words_{};
};

} // namespace peercache::storage
