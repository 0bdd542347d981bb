#pragma once

#include "client/session/session_actor.hpp"

#include <chrono>

// How a session tells its node which blocks the engine holds on its GPU: one report at a time, so
// that neither mailbox fills up.
namespace peercache::client {

/// How long news of the GPU is gathered before it is sent.
inline constexpr std::chrono::milliseconds gpu_pause{50};
/// Pause after a report that was not answered.
inline constexpr std::chrono::milliseconds gpu_failed_pause{1000};
/// Pause after a report that the node has refused: too many clients tell it of blocks.
inline constexpr std::chrono::milliseconds gpu_refused_pause{30'000};

/// Sends the next report to the node of the session, if there is one and there is news for it. Does
/// nothing while a report is on its way, or in the pause after one that failed or was refused.
void tell_gpu(session_actor::stateful_pointer<session_actor_state> self);
/// Call when a session was opened: its node knows of no block.
void begin_to_tell_gpu(session_actor::stateful_pointer<session_actor_state> self);

} // namespace peercache::client
