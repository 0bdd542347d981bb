#pragma once

#include "handoff/messages.hpp"
#include "handoff/peer_id.hpp"

namespace peercache::handoff {

/// A message that the rooms of either side want to be sent.
struct outgoing {
  peer_id to;
  message what;
  bool operator==(const outgoing&) const = default;
};

} // namespace peercache::handoff
