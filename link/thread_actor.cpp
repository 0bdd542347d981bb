#include "link/thread_actor.hpp"

#include <caf/blocking_actor.hpp>
#include <caf/scoped_actor.hpp>

namespace peercache::link {

caf::actor spawn_thread_actor(caf::actor_system& system, std::function<void()> body) {
  // `body` travels as an argument: for a function without arguments CAF 0.17 binds a reference to a
  // null pointer.
  return system.spawn([](caf::blocking_actor*, const std::function<void()>& run) { run(); },
                      std::move(body));
}

void wait_for_thread_actor(caf::actor_system& system, const caf::actor& thread) {
  caf::scoped_actor self{system};
  self->wait_for(thread);
}

} // namespace peercache::link
