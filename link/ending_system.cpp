#include "link/ending_system.hpp"

#include <atomic>
#include <chrono>
#include <future>
#include <thread>
#include <utility>

namespace peercache::link {
namespace {

constexpr auto end_timeout = std::chrono::milliseconds(500);

std::atomic<int> systems_ending{0};

} // namespace

void end_system(std::unique_ptr<system_config> config, std::unique_ptr<caf::actor_system> system) {
  // An actor that something still refers to must not keep the caller's process from ending.
  system->await_actors_before_shutdown(false);
  // Another thread ends the system, and would wait for this thread if it were still attached.
  leave_actor_system();
  auto ended = std::make_shared<std::promise<void>>();
  auto when_ended = ended->get_future();
  systems_ending.fetch_add(1);
  std::thread ending([config = std::move(config), system = std::move(system), ended]() mutable {
    system.reset();
    config.reset();
    systems_ending.fetch_sub(1);
    ended->set_value();
  });
  if (when_ended.wait_for(end_timeout) == std::future_status::ready)
    ending.join();
  else
    ending.detach();
}

int ending_systems() noexcept {
  return systems_ending.load();
}

} // namespace peercache::link
