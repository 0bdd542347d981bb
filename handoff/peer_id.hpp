#pragma once

#include <compare>
#include <cstdint>

namespace peercache::handoff {

/// The connection to one worker of the other side, as long as it lasts; another connection to the
/// same worker has another number.
struct peer_id {
  std::uint64_t value = 0;
  auto operator<=>(const peer_id&) const = default;
};

} // namespace peercache::handoff
