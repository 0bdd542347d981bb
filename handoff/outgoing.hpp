#pragma once

#include "handoff/messages.hpp"
#include "handoff/peer_id.hpp"

namespace peercache::handoff {

/// A message to send, and the peer to send it to.
struct outgoing {
  peer_id to;
  message what;
  bool operator==(const outgoing&) const = default;
};

} // namespace peercache::handoff
