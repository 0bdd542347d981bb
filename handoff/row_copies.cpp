#include "handoff/row_copies.hpp"

#include "common/assert.hpp"

#include <algorithm>

namespace peercache::handoff {

std::vector<item_run> merged_runs(std::span<const std::uint32_t> source,
                                  std::span<const std::uint32_t> destination) {
  PEERCACHE_ASSERT(source.size() == destination.size());
  std::vector<item_run> runs;
  for (std::size_t i = 0; i < source.size(); ++i)
    if (!runs.empty() && std::uint64_t{runs.back().source} + runs.back().count == source[i] &&
        std::uint64_t{runs.back().destination} + runs.back().count == destination[i])
      ++runs.back().count;
    else
      runs.push_back({source[i], destination[i], 1});
  return runs;
}

piece_cutter::piece_cutter(const item_stripe& stripe, const item_run& run) noexcept
    : source_stride_(stripe.source_stride), destination_stride_(stripe.destination_stride),
      rows_(std::uint64_t{run.count} * stripe.rows_per_item), row_bytes_(stripe.row_bytes) {
  PEERCACHE_HOT_ASSERT(row_bytes_ > 0 && row_bytes_ <= limits::page_bytes_max);
  PEERCACHE_HOT_ASSERT(source_stride_ >= row_bytes_ && destination_stride_ >= row_bytes_);
  source_ = stripe.source + std::uint64_t{run.source} * stripe.rows_per_item * source_stride_;
  destination_ = stripe.destination +
                 std::uint64_t{run.destination} * stripe.rows_per_item * destination_stride_;
}

std::uint32_t piece_cutter::rows_of_next() const noexcept {
  std::uint64_t rows = std::min<std::uint64_t>(rows_, limits::page_bytes_max / row_bytes_);
  if (!source_touches())
    rows = std::min<std::uint64_t>(rows, limits::piece_rows_max);
  if (!destination_touches())
    rows = std::min<std::uint64_t>(rows, limits::parts_per_page_max);
  return static_cast<std::uint32_t>(rows);
}

piece piece_cutter::next(std::vector<page_part>& parts) {
  PEERCACHE_ASSERT(!finished());
  const auto rows = rows_of_next();
  piece cut;
  cut.bytes = rows * row_bytes_;
  cut.source = source_touches() ? source_rows{source_, cut.bytes, 1, cut.bytes}
                                : source_rows{source_, source_stride_, rows, row_bytes_};
  cut.first_part = static_cast<std::uint32_t>(parts.size());
  cut.part_count = destination_touches() ? 1 : rows;
  const auto part_bytes = cut.bytes / cut.part_count;
  for (std::uint32_t i = 0; i < cut.part_count; ++i) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the engine tells its addresses as numbers.
    auto* to = reinterpret_cast<std::byte*>(destination_ + i * destination_stride_);
    parts.push_back({to, part_bytes});
  }
  source_ += rows * source_stride_;
  destination_ += rows * destination_stride_;
  rows_ -= rows;
  return cut;
}

} // namespace peercache::handoff
