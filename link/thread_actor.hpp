#pragma once

#include <caf/actor.hpp>
#include <caf/actor_system.hpp>

#include <functional>

namespace peercache::link {

/// Spawns an actor with a thread of its own that runs `body` and then ends: data planes get their
/// threads this way. The caller makes `body` return (a stop flag and a wake-up), then waits for the
/// actor.
/// @param name the thread's name, as `top -H` shows it: a literal of at most 15 characters
caf::actor spawn_thread_actor(caf::actor_system& system, const char* name,
                              std::function<void()> body);

/// Blocks the calling thread until the actor of `spawn_thread_actor` has ended.
void wait_for_thread_actor(caf::actor_system& system, const caf::actor& thread);

} // namespace peercache::link
