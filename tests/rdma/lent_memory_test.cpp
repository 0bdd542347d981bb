#include "tests/rdma/lent_memory.hpp"

#include "tests/rdma/plane_rig.hpp"

#include <sys/mman.h>

#include <array>
#include <cstring>

namespace peercache::rdma {
namespace {

/// Returns the rows of the page in this slot: by the slot's number one row, many short rows, or a
/// few long rows.
memory_rows shape_of(std::uint32_t slot, std::uint32_t length_bytes) {
  constexpr std::array<std::uint32_t, 4> short_rows{512, 500, 100, 70};
  constexpr std::array<std::uint32_t, 5> counts{8, 5, 4, 3, 2};
  if (slot % 3 == 1)
    for (const auto row_bytes : short_rows)
      if (length_bytes % row_bytes == 0 && length_bytes / row_bytes <= limits::rows_per_page_max)
        return {0, row_bytes + 300, length_bytes / row_bytes, row_bytes};
  if (slot % 3 == 2)
    for (const auto rows : counts)
      if (length_bytes % rows == 0)
        return {0, length_bytes / rows + 5000, rows, length_bytes / rows};
  return memory_rows::one_piece(0, length_bytes);
}

std::byte* row_of(const memory_rows& rows, std::uint32_t row) {
  return reinterpret_cast<std::byte*>(rows.address + row * rows.stride_bytes);
}

void fill(const memory_rows& rows, const std::vector<std::byte>& bytes) {
  for (std::uint32_t row = 0; row < rows.rows; ++row)
    std::memcpy(row_of(rows, row), &bytes[std::size_t{row} * rows.row_bytes], rows.row_bytes);
}

} // namespace

lent_memory::lent_memory()
    : lent_memory(::mmap(nullptr, leases_ * sizeof(slot_entry) + memory_bytes_,
                         PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
                         0)) {}

lent_memory::lent_memory(void* mapped)
    : spans({static_cast<slot_entry*>(mapped), leases_}), table_(static_cast<slot_entry*>(mapped)),
      memory_(static_cast<std::byte*>(mapped) + leases_ * sizeof(slot_entry)) {
  EXPECT_NE(mapped, MAP_FAILED);
  EXPECT_TRUE(spans.add(memory()));
}

lent_memory::~lent_memory() {
  ::munmap(table_, leases_ * sizeof(slot_entry) + memory_bytes_);
}

const lent_memory::piece& lent_memory::piece_of(const test_pool& pool, std::uint32_t slot) {
  const auto found = placed_.find(slot);
  if (found != placed_.end())
    return found->second;
  const auto& from = pool.slots.at(slot);
  piece made{static_cast<std::uint32_t>(placed_.size()) * lease_distance_,
             shape_of(slot, static_cast<std::uint32_t>(from.bytes.size()))};
  made.rows.address = reinterpret_cast<std::uint64_t>(memory_ + used_bytes_);
  const auto extent = made.rows.extent_bytes();
  EXPECT_LE(used_bytes_ + extent, memory_bytes_);
  EXPECT_LT(made.lease, leases_);
  std::memset(memory_ + used_bytes_, static_cast<int>(between), extent);
  used_bytes_ += (extent + 63) / 64 * 64;
  fill(made.rows, from.bytes);
  auto& entry = table_[made.lease];
  entry.key = from.key;
  entry.generation.store(from.gen.value, std::memory_order_release);
  return placed_.emplace(slot, made).first->second;
}

void lent_memory::place(const test_pool& pool, test_batch& what) {
  for (std::size_t i = 0; i < what.batch.pages.size(); ++i) {
    auto& page = what.batch.pages[i];
    const auto& piece = piece_of(pool, what.from_slots[i]);
    page.source = piece.rows;
    if (page.slot.value == what.from_slots[i])
      page.slot = {piece.lease};
  }
}

void lent_memory::take_back(std::uint32_t slot) {
  const auto& [lease, rows] = placed_.at(slot);
  auto& generation = table_[lease].generation;
  generation.store(generation.load(std::memory_order_relaxed) | 1, std::memory_order_seq_cst);
  for (std::uint32_t row = 0; row < rows.rows; ++row)
    std::memset(row_of(rows, row), static_cast<int>(reused), rows.row_bytes);
}

void lent_memory::lend_again(test_pool& pool, std::uint32_t slot) {
  const auto& [lease, rows] = placed_.at(slot);
  auto& from = pool.slots.at(slot);
  from.gen.value += 2;
  fill(rows, from.bytes);
  table_[lease].generation.store(from.gen.value, std::memory_order_release);
}

} // namespace peercache::rdma
