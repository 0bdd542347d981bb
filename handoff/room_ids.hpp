#pragma once

#include <compare>
#include <cstdint>

namespace peercache::handoff {

/// The number that a router gives to one request (SGLang's bootstrap_room). A room may come again.
struct room_id {
  std::uint64_t value = 0;
  auto operator<=>(const room_id&) const = default;
};

/// One receiver's turn at a room: a count of the receiver's process, which grows with each turn.
/// Whatever concerns a room names it, so that what is late concerns nobody.
struct join_id {
  std::uint64_t value = 0;
  auto operator<=>(const join_id&) const = default;
};

} // namespace peercache::handoff
