#pragma once

#include <caf/actor_system_config.hpp>

#include <cstddef>

namespace peercache::link {

/// CAF as we run it, with the reasons in docs/flows.md: policy `sharing`, no BASP workers,
/// heartbeats on, no automatic connections, our message types.
class system_config : public caf::actor_system_config {
public:
  /// @param threads of the scheduler, 1 to 4
  explicit system_config(std::size_t threads);
};

/// For a thread that is not of an actor system, after it made one, spawned in it or made a blocking
/// actor of it. CAF leaves the system's logger behind in such a thread, and the system's end waits
/// until no thread has it: for ever, while this one lives on.
void leave_actor_system() noexcept;

} // namespace peercache::link
