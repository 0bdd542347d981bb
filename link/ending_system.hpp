#pragma once

#include "link/system_config.hpp"

#include <caf/actor_system.hpp>

#include <chrono>
#include <future>
#include <memory>

namespace peercache::link {

/// Ends an actor system within half a second. CAF closes a connection only when its peer has closed
/// it too, which a frozen peer never does: then a thread is left to end the system.
/// @pre its actors no longer use anything of the caller, and no thread but the caller's is attached
/// to it
void end_system(std::unique_ptr<system_config> config, std::unique_ptr<caf::actor_system> system);

/// Runs `end`, which ends the owner of an actor system, in a thread of its own and returns when it
/// is done or `at_most` is over. Then the thread is left to it, so `end` refers to nothing of the
/// caller.
void end_in_thread(std::packaged_task<void()> end, std::chrono::milliseconds at_most);

/// Actor systems of this process whose end was left to a thread, or their owners'.
int ending_systems() noexcept;

} // namespace peercache::link
