#pragma once

#include "link/system_config.hpp"

#include <caf/actor.hpp>
#include <caf/actor_system.hpp>

#include <functional>
#include <vector>

namespace peercache::link {

/// An actor system whose actors each have a thread of their own, for programs that run loops beside
/// an engine and have no node to talk to. Threads: the owner's. Lifetime: what the bodies use
/// outlives `join`.
class thread_actors {
public:
  thread_actors();
  /// @pre each body has returned, or is about to
  ~thread_actors();
  thread_actors(const thread_actors&) = delete;
  thread_actors& operator=(const thread_actors&) = delete;

  void spawn(std::function<void()> body);
  /// Waits until every body has returned.
  void join();

private:
  system_config config_{1};
  caf::actor_system system_{config_};
  std::vector<caf::actor> actors_;
};

} // namespace peercache::link
