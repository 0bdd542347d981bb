#pragma once

#include <compare>
#include <cstdint>

namespace peercache::handoff {

/// The number that a router gives to one request (SGLang's bootstrap_room). The same number may
/// come again for a later turn.
struct room_id {
  std::uint64_t value = 0;
  auto operator<=>(const room_id&) const = default;
};

/// One receiver's turn at a room: a count of the receiver's process, which grows with each turn.
/// Each message about a room names the turn, so that a late message does not touch a later turn.
/// `transfer_reads` numbers its jobs by it.
struct join_id {
  std::uint64_t value = 0;
  auto operator<=>(const join_id&) const = default;
};

} // namespace peercache::handoff
