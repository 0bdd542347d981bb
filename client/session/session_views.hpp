#pragma once

#include "client/session/session_actor.hpp"

#include <string>

namespace peercache::client {

/// Hears a view that this host's node tells, whole or as a difference to the view that the node
/// told before, and tells the links actor the whole view. A view that was told as a difference to
/// another one (a message was lost) is asked of the node as a whole.
void hear_view(session_actor::stateful_pointer<session_actor_state> self, const std::string& told);

} // namespace peercache::client
