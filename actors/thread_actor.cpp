#include "actors/thread_actor.hpp"

#include <caf/blocking_actor.hpp>
#include <caf/scoped_actor.hpp>

namespace peercache::actors {

caf::actor spawn_thread_actor(caf::actor_system& system, std::function<void()> body) {
  return system.spawn([body = std::move(body)](caf::blocking_actor*) { body(); });
}

void wait_for_thread_actor(caf::actor_system& system, const caf::actor& thread) {
  caf::scoped_actor self{system};
  self->wait_for(thread);
}

} // namespace peercache::actors
