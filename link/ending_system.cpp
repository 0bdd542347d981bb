#include "link/ending_system.hpp"

#include <atomic>
#include <memory>
#include <system_error>
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
  std::packaged_task<void()> end(
      [config = std::move(config), system = std::move(system)]() mutable {
        system.reset();
        config.reset();
      });
  end_in_thread(std::move(end), end_timeout);
}

void end_in_thread(std::packaged_task<void()> end, std::chrono::milliseconds at_most) {
  const auto ended = end.get_future();
  auto shared = std::make_shared<std::packaged_task<void()>>(std::move(end));
  std::thread ending;
  systems_ending.fetch_add(1);
  try {
    ending = std::thread([shared] {
      (*shared)();
      systems_ending.fetch_sub(1);
    });
  } catch (const std::system_error&) { // The host has no thread to spare.
    (*shared)();
    systems_ending.fetch_sub(1);
    return;
  }
  if (ended.wait_for(at_most) == std::future_status::ready)
    ending.join();
  else
    ending.detach();
}

int ending_systems() noexcept {
  return systems_ending.load();
}

} // namespace peercache::link
