#include "link/thread_actor.hpp"

#include "common/assert.hpp"

#include <caf/blocking_actor.hpp>
#include <caf/scoped_actor.hpp>
#include <pthread.h>

namespace peercache::link {

caf::actor spawn_thread_actor(caf::actor_system& system, const char* name,
                              std::function<void()> body) {
  // `body` travels as an argument: for a function without arguments CAF 0.17 binds a reference to a
  // null pointer.
  return system.spawn(
      [name](caf::blocking_actor*, const std::function<void()>& run) {
        const auto refused = ::pthread_setname_np(::pthread_self(), name);
        PEERCACHE_ASSERT(refused == 0); // The name is short enough.
        run();
      },
      std::move(body));
}

void wait_for_thread_actor(caf::actor_system& system, const caf::actor& thread) {
  caf::scoped_actor self{system};
  self->wait_for(thread);
}

} // namespace peercache::link
