#include "link/thread_actors.hpp"

#include "link/ending_system.hpp"
#include "link/thread_actor.hpp"

#include <utility>

namespace peercache::link {

thread_actors::thread_actors(std::shared_ptr<net::tls_context> tls)
    : config_(std::make_unique<system_config>(1, std::move(tls))),
      system_(std::make_unique<caf::actor_system>(*config_)) {
  leave_actor_system();
}

thread_actors::~thread_actors() {
  join();
  end_system(std::move(config_), std::move(system_));
}

void thread_actors::spawn(std::function<void()> body) {
  actors_.push_back(spawn_thread_actor(*system_, "peercache-loop", std::move(body)));
  leave_actor_system();
}

void thread_actors::join() {
  for (const auto& each : actors_)
    wait_for_thread_actor(*system_, each);
  actors_.clear();
  leave_actor_system();
}

} // namespace peercache::link
