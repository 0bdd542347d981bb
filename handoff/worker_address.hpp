#pragma once

#include <compare>
#include <cstdint>
#include <string>

namespace peercache::handoff {

/// Where a worker listens. @param host numeric address
struct worker_address {
  std::string host;
  std::uint16_t port = 0;
  auto operator<=>(const worker_address&) const = default;
};

} // namespace peercache::handoff
