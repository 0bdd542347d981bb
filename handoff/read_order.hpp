#pragma once

#include "common/page_part.hpp"
#include "handoff/lease_table.hpp"
#include "handoff/peer_id.hpp"
#include "handoff/room_ids.hpp"
#include "handoff/row_copies.hpp"

#include <compare>
#include <cstdint>
#include <vector>

namespace peercache::handoff {

/// Names one read that a worker has ordered.
struct read_id {
  std::uint64_t value = 0;
  auto operator<=>(const read_id&) const = default;
};

/// How a read of a room has ended.
enum class read_end : std::uint8_t {
  good,    ///< Every piece arrived while the lease stood.
  refused, ///< The lease had ended.
  failed,  ///< Anything else went wrong.
};

/// Pieces to read from one peer under one lease, as one batch of the data plane.
struct read_order {
  read_id id;
  /// Turn of a room, or job of `transfer_reads`, that the read belongs to; reads are cancelled by
  /// this id.
  join_id turn;
  peer_id from;
  lease under;
  std::vector<piece> pieces;
  std::vector<page_part> parts;
  std::uint64_t bytes = 0;
};

} // namespace peercache::handoff
