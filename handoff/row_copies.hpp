#pragma once

#include "common/page_part.hpp"
#include "handoff/limits.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace peercache::handoff {

/// Rows of a peer's memory, whose beginnings are `stride_bytes` apart.
struct source_rows {
  std::uint64_t address = 0; ///< Address of the first row, in the peer's process.
  std::uint64_t stride_bytes = 0;
  std::uint32_t rows = 0;
  std::uint32_t row_bytes = 0;
  bool operator==(const source_rows&) const = default;
};

/// What one read of the data plane fetches: `source.rows` rows, one after the other, into
/// `part_count` parts from `first_part` on.
/// Invariants: at most `limits::page_bytes_max` bytes, `limits::piece_rows_max` rows and
/// `limits::parts_per_page_max` parts; the parts are as long as the rows together.
struct piece {
  source_rows source;
  std::uint32_t bytes = 0;
  std::uint32_t first_part = 0; ///< Index in the list of parts that the piece came with.
  std::uint32_t part_count = 0;
};

/// `count` items that follow one another at the source and at the destination, from these indices
/// on.
struct item_run {
  std::uint32_t source = 0;
  std::uint32_t destination = 0;
  std::uint32_t count = 0;
  bool operator==(const item_run&) const = default;
};

/// Merges pairs of items whose indices grow by one on both sides into runs.
/// @pre both lists are equally long
std::vector<item_run> merged_runs(std::span<const std::uint32_t> source,
                                  std::span<const std::uint32_t> destination);

/// How the items of one buffer go into those of another: item i's row j is copied from `source + (i
/// * rows_per_item + j) * source_stride` to the address computed in the same way from `destination`
/// and `destination_stride`. Shares of an item that are not copied lie between the rows.
/// Invariants: no stride is below `row_bytes`; `row_bytes` is at most `limits::page_bytes_max`.
struct item_stripe {
  std::uint64_t source = 0;      ///< Address in the peer's process.
  std::uint64_t destination = 0; ///< Address in this process.
  std::uint64_t source_stride = 0;
  std::uint64_t destination_stride = 0;
  std::uint32_t rows_per_item = 1;
  std::uint32_t row_bytes = 0;

  std::uint64_t bytes_of(const item_run& run) const noexcept {
    return std::uint64_t{run.count} * rows_per_item * row_bytes;
  }
};

/// Cuts one run of items of one stripe into pieces: rows that touch at source and destination are
/// merged into one row, and no piece exceeds the limits of `piece`. Threads: a value.
class piece_cutter {
public:
  piece_cutter() = default;
  piece_cutter(const item_stripe& stripe, const item_run& run) noexcept;

  bool finished() const noexcept { return rows_ == 0; }
  /// Cuts the next piece off and appends its parts. @pre !finished()
  piece next(std::vector<page_part>& parts);

private:
  bool source_touches() const noexcept { return source_stride_ == row_bytes_; }
  bool destination_touches() const noexcept { return destination_stride_ == row_bytes_; }
  std::uint32_t rows_of_next() const noexcept;

  std::uint64_t source_ = 0;
  std::uint64_t destination_ = 0;
  std::uint64_t source_stride_ = 0;
  std::uint64_t destination_stride_ = 0;
  std::uint64_t rows_ = 0; ///< Rows that are not cut off yet.
  std::uint32_t row_bytes_ = 0;
};

} // namespace peercache::handoff
