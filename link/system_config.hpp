#pragma once

#include <caf/actor_system_config.hpp>

#include <cstddef>

namespace peercache::link {

/// CAF's settings, with the reasons in docs/flows.md: policy `sharing`, no BASP workers, heartbeats
/// on, no automatic connections, our message types.
class system_config : public caf::actor_system_config {
public:
  /// @param threads threads of the scheduler, 1 to 4
  explicit system_config(std::size_t threads);
};

/// Detaches the calling thread from an actor system. Call it in a thread that does not belong to
/// the system, after it created the system, spawned in it or made a blocking actor of it. CAF
/// leaves the system's logger behind in such a thread, and the system's end would wait for the end
/// of that thread.
void leave_actor_system() noexcept;

} // namespace peercache::link
