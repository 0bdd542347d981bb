#pragma once

#include "handoff/lease_table.hpp"
#include "handoff/memory_range.hpp"

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

/// What transfer workers say to each other (`message`, `handoff_wire_version`). Bytes travel one
/// way only: the worker into whose memory they go reads them, under a lease of the worker from
/// whose memory they come. Either of the two workers may ask for the transfer.
namespace peercache::handoff {

/// Names a transfer: a count of the worker that asks for it. Different workers may use the same
/// numbers, so an id names a transfer only together with the connection.
struct transfer_id {
  std::uint64_t value = 0;
  auto operator<=>(const transfer_id&) const = default;
};

/// Bytes that go from an address in one process to an address in another.
struct transfer_piece {
  std::uint64_t source = 0;
  std::uint64_t destination = 0;
  std::uint64_t bytes = 0;
  bool operator==(const transfer_piece&) const = default;

  constexpr memory_range source_range() const noexcept { return {source, bytes}; }
  constexpr memory_range destination_range() const noexcept { return {destination, bytes}; }
};

/// Request of the worker that asks: the other worker has to read these pieces while the lease
/// stands, into memory that the other worker has registered. The answer is `transfer_ended`.
struct transfer_write {
  transfer_id id;
  lease under;
  std::uint32_t timeout_ms = 0; ///< Time after which the bytes are useless to both workers.
  std::vector<transfer_piece> pieces;
  bool operator==(const transfer_write&) const = default;
};

/// Request of the worker that asks: it wants to read this memory of the other worker. The answer is
/// `transfer_lent`, or `transfer_ended` if the read is refused.
struct transfer_read {
  transfer_id id;
  std::vector<memory_range> ranges;
  bool operator==(const transfer_read&) const = default;
};

/// The answer to `transfer_read`: the memory may be read while the lease stands, which it does
/// until `transfer_stop` unless its owner takes the memory back.
struct transfer_lent {
  transfer_id id;
  lease under;
  bool operator==(const transfer_lent&) const = default;
};

/// The last message about a transfer from the worker that was asked. After a `transfer_write` it
/// says that no bytes of this transfer are written to that worker's memory from now on. After a
/// `transfer_read` it says that the read is refused.
struct transfer_ended {
  transfer_id id;
  bool good = false;  ///< All bytes have arrived, and were read while the lease stood.
  std::string reason; ///< Why the transfer is not good: at most `limits::reason_bytes_max` bytes.
  bool operator==(const transfer_ended&) const = default;
};

/// The last message about a transfer from the worker that asked. A `transfer_write` has to end at
/// once; the other worker still answers the `transfer_write`, unless it has answered before. The
/// lease of a `transfer_read` is no longer used.
struct transfer_stop {
  transfer_id id;
  bool operator==(const transfer_stop&) const = default;
};

} // namespace peercache::handoff
