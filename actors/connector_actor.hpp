#pragma once

#include "actors/protocol/gateway.hpp"

#include <chrono>

namespace peercache::actors {

/// Dials one address at a time on its own thread; spawn it detached. CAF's own connect would block
/// the one middleman actor for as long as the kernel likes (caf.md 3.3).
struct connector_state {
  connector_state() = default;
  std::chrono::milliseconds timeout{300};
  static inline const char* name = "connector";
};

connector_actor::behavior_type
run_connector(connector_actor::stateful_pointer<connector_state> self,
              std::chrono::milliseconds timeout);

} // namespace peercache::actors
