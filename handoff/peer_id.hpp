#pragma once

#include <compare>
#include <cstdint>

namespace peercache::handoff {

/// Names one connection to another worker; a second connection to the same worker has another
/// number.
struct peer_id {
  std::uint64_t value = 0;
  auto operator<=>(const peer_id&) const = default;
};

} // namespace peercache::handoff
