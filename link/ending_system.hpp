#pragma once

#include "link/system_config.hpp"

#include <caf/actor_system.hpp>

#include <chrono>
#include <future>
#include <memory>

namespace peercache::link {

/// Ends an actor system; returns after half a second at most, unless the host has no thread to
/// spare. CAF closes a connection only when its peer has closed it too, which a frozen peer never
/// does: a thread then stays behind to end the system.
/// @pre the system's actors no longer use anything of the caller, and no thread but the caller's is
/// attached to the system
void end_system(std::unique_ptr<system_config> config, std::unique_ptr<caf::actor_system> system);

/// Runs `end`, which ends the owner of an actor system, in a thread of its own. Returns when `end`
/// is done or `at_most` is over; the thread may go on afterwards, so `end` must refer to nothing of
/// the caller. If the host has no thread to spare, `end` runs in the calling thread.
void end_in_thread(std::packaged_task<void()> end, std::chrono::milliseconds at_most);

/// How many ends of actor systems are under way in this process, those left to a thread included.
int ending_systems() noexcept;

} // namespace peercache::link
