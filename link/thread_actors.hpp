#pragma once

#include "link/system_config.hpp"

#include <caf/actor.hpp>
#include <caf/actor_system.hpp>

#include <functional>
#include <memory>
#include <vector>

namespace peercache::link {

/// An actor system with actors that each have a thread of their own, for programs that run loops
/// beside an engine. Threads: the owner's. Lifetime: what the bodies use outlives `join`.
class thread_actors {
public:
  /// @param tls the TLS that connections of other actors are under; null: they are plain
  explicit thread_actors(std::shared_ptr<net::tls_context> tls = nullptr);
  /// Waits until the bodies have returned, and then at most half a second for the system's end.
  ~thread_actors();
  thread_actors(const thread_actors&) = delete;
  thread_actors& operator=(const thread_actors&) = delete;

  void spawn(std::function<void()> body);
  /// Waits until every body has returned.
  void join();

  /// The actor system, in which the owner may spawn other actors. @pre these actors have ended
  /// before this object is destroyed
  caf::actor_system& system() noexcept { return *system_; }

private:
  std::unique_ptr<system_config> config_;
  std::unique_ptr<caf::actor_system> system_;
  std::vector<caf::actor> actors_;
};

} // namespace peercache::link
