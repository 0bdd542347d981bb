#pragma once

#include <caf/actor_system.hpp>

namespace peercache::link {

/// Makes the scheduler of our actor systems: CAF's policy `sharing` (one queue, whose workers sleep
/// until something comes), with a clock that wakes nobody for a timer that is set or cancelled
/// (link/timers.hpp) and whose timers the workers deliver (link/job_queue.hpp). CAF's own scheduler
/// has no place for another clock.
///
/// Threads: `scheduler.max-threads` workers, and one that delivers what they are too late for and
/// calls workers for jobs that wait for one that is held up.
/// Ownership: the actor system's, as CAF has it.
caf::actor_system::module* make_scheduler(caf::actor_system& system);

} // namespace peercache::link
