#pragma once

#include "link/protocol/gateway.hpp"

#include <chrono>
#include <cstdint>
#include <list>

namespace peercache::link {

/// Dials all addresses at once, so that an address out of reach holds up no other. CAF's own
/// connect would block the one middleman actor for as long as the kernel likes. Only numeric
/// addresses: names are resolved where they are configured. Never blocks. Not detached: CAF's
/// broker keeps a reference to every actor that waits for the greeting of a silent peer, and a
/// detached actor that is referred to keeps its actor system from ending. Bound: each caller has
/// one open dial per address.
struct connector_state {
  connector_state() = default;

  /// A connection that is being made.
  struct dial {
    dial() = default;
    dial(dial&& other) noexcept;
    ~dial();
    int fd = -1; ///< The connecting socket; this struct owns it.
    std::uint16_t port = 0;
    std::chrono::steady_clock::time_point until;
    caf::typed_response_promise<gateway_actor> promise;
  };

  std::chrono::milliseconds timeout{300};
  std::list<dial> dials;
  static inline const char* name = "connector";
};

connector_actor::behavior_type
run_connector(connector_actor::stateful_pointer<connector_state> self,
              std::chrono::milliseconds timeout);

} // namespace peercache::link
