#pragma once

#include <caf/actor.hpp>
#include <caf/actor_system.hpp>

#include <functional>

namespace peercache::link {

/// An actor with a thread of its own that runs `body` and ends: how a data plane gets its thread.
/// Whoever spawns it makes `body` return (a stop flag and a wake-up), then waits for the actor.
caf::actor spawn_thread_actor(caf::actor_system& system, std::function<void()> body);

/// Blocks until the actor has ended.
void wait_for_thread_actor(caf::actor_system& system, const caf::actor& thread);

} // namespace peercache::link
