#pragma once

#include "common/limits.hpp"

#include <cstddef>
#include <cstdint>

namespace peercache::rdma {

/// What a process serves at a data port. A reader names the service in its hello, and reads nothing
/// from a process that serves another service. Travels: any change takes another `tcp_wire_version`
/// and another `verbs_wire_version`.
enum class data_service : std::uint8_t {
  pool,   ///< Pages of a pool, which lie in the places of their slots.
  handoff ///< Rows of memory under leases (`served_spans`).
};

/// Bytes in the memory of a peer that serves `data_service::handoff`: `rows` rows of `row_bytes`,
/// whose beginnings are `stride_bytes` apart. A single row is a contiguous piece of memory.
/// Travels: any change takes another `tcp_wire_version`.
struct memory_rows {
  std::uint64_t address = 0; ///< Address of the first row in the peer's process.
  std::uint64_t stride_bytes = 0;
  std::uint32_t rows = 0; ///< 0: the page lies in its slot of a pool.
  std::uint32_t row_bytes = 0;

  static memory_rows one_piece(std::uint64_t address, std::uint32_t bytes) noexcept {
    return {address, bytes, 1, bytes};
  }
  /// The first byte of a row. Points to memory only in the process whose rows these are.
  /// @pre row < rows
  const std::byte* begin_of(std::uint32_t row) const noexcept {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): an address travels as a number.
    return reinterpret_cast<const std::byte*>(address + row * stride_bytes);
  }
  /// Whether no bytes lie between the rows. @pre rows != 0
  bool contiguous() const noexcept { return rows == 1 || stride_bytes == row_bytes; }

  /// Bytes from the first byte of the first row to the last byte of the last row.
  /// @pre `well_formed` for some length
  std::uint64_t extent_bytes() const noexcept { return (rows - 1) * stride_bytes + row_bytes; }
};

/// Whether the rows are `length_bytes` together, as many as a page may have, do not overlap, and
/// end before the end of the address space.
constexpr bool well_formed(const memory_rows& source, std::uint32_t length_bytes) noexcept {
  if (source.rows == 0 || source.rows > limits::rows_per_page_max || source.row_bytes == 0 ||
      std::uint64_t{source.rows} * source.row_bytes != length_bytes)
    return false;
  const std::uint64_t gaps = source.rows - 1;
  if (gaps != 0 && (source.stride_bytes < source.row_bytes ||
                    source.stride_bytes > (~std::uint64_t{0} - source.row_bytes) / gaps))
    return false;
  return source.address != 0 &&
         gaps * source.stride_bytes + source.row_bytes <= ~std::uint64_t{0} - source.address;
}

} // namespace peercache::rdma
