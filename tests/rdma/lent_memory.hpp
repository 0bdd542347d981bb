#pragma once

#include "common/slot_entry.hpp"
#include "rdma/served_spans.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>

namespace peercache::rdma {

class test_pool;
struct test_batch;

/// Copies of the pages of a test_pool in memory under leases. Each page has a lease of its own and
/// is laid out in rows of some shape, with other bytes between the rows.
class lent_memory {
public:
  static constexpr std::byte between{0xBE};
  static constexpr std::byte reused{0xEE};

  lent_memory();
  ~lent_memory();
  lent_memory(const lent_memory&) = delete;
  lent_memory& operator=(const lent_memory&) = delete;

  /// Makes the batch read its pages from this memory. A page to which the test has given another
  /// slot keeps that slot as its lease.
  void place(const test_pool& pool, test_batch& what);
  /// Takes the memory of a page back as its owner does: ends the lease, and puts other bytes there.
  void take_back(std::uint32_t slot);
  /// Lends the page again, under the next generation of its lease.
  void lend_again(test_pool& pool, std::uint32_t slot);

  std::span<slot_entry> table() const { return {table_, leases_}; }
  std::span<std::byte> memory() const { return {memory_, memory_bytes_}; }
  slot_entry& lease_of(std::uint32_t slot) const { return table_[placed_.at(slot).lease]; }
  const memory_rows& rows_of(std::uint32_t slot) const { return placed_.at(slot).rows; }

  served_spans spans;

private:
  // Only each `lease_distance_`-th lease of the table is used, so that no READ covers two used
  // leases.
  static constexpr std::uint32_t lease_distance_ = 20;
  static constexpr std::size_t leases_ = lease_distance_ * 8192;
  static constexpr std::size_t memory_bytes_ = 96u << 20;

  struct piece {
    std::uint32_t lease;
    memory_rows rows;
  };
  const piece& piece_of(const test_pool& pool, std::uint32_t slot);
  explicit lent_memory(void* mapped);

  slot_entry* table_ = nullptr;
  std::byte* memory_ = nullptr;
  std::size_t used_bytes_ = 0;
  std::map<std::uint32_t, piece> placed_;
};

} // namespace peercache::rdma
