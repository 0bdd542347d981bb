#pragma once

#include "link/system_config.hpp"

#include <caf/actor_system.hpp>

#include <memory>

namespace peercache::link {

/// Ends an actor system within half a second. CAF closes a connection only when its peer has closed
/// it too, which a frozen peer never does: then a thread is left to end the system.
/// @pre no actor of it uses anything of the caller any more, and no thread but the caller's is
///   attached to it
void end_system(std::unique_ptr<system_config> config, std::unique_ptr<caf::actor_system> system);

/// Actor systems of this process whose end was left to a thread.
int ending_systems() noexcept;

} // namespace peercache::link
