#pragma once

#include <compare>
#include <cstdint>

namespace peercache::handoff {

/// The number that a router gives to one request (SGLang's bootstrap_room). A later turn may have
/// the same number.
struct room_id {
  std::uint64_t value = 0;
  auto operator<=>(const room_id&) const = default;
};

/// One receiver's turn at a room: a number that the receiver's process counts up with each turn.
/// Each message about a room names the turn, so that a late message does not touch a later turn.
/// `transfer_reads` numbers its jobs with this type, too.
struct join_id {
  std::uint64_t value = 0;
  auto operator<=>(const join_id&) const = default;
};

} // namespace peercache::handoff
