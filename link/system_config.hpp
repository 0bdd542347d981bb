#pragma once

#include "net/tls_context.hpp"

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>

#include <cstddef>
#include <memory>

namespace peercache::link {

/// CAF's settings, with the reasons in docs/flows.md: our scheduler (link/scheduler.hpp), no BASP
/// workers, heartbeats on, no automatic connections, our message types.
class system_config : public caf::actor_system_config {
public:
  /// @param threads threads of the scheduler, 1 to 4
  /// @param tls the TLS that all connections of the system are under; null: they are plain
  explicit system_config(std::size_t threads, std::shared_ptr<net::tls_context> tls = nullptr);

  const std::shared_ptr<net::tls_context>& tls() const noexcept { return tls_; }

private:
  const std::shared_ptr<net::tls_context> tls_;
};

/// The TLS of an actor system; null: its connections are plain.
std::shared_ptr<net::tls_context> tls_of(const caf::actor_system& system);

/// Detaches the calling thread from an actor system. Call it in a thread that does not belong to
/// the system, after it created the system, spawned in it or made a blocking actor of it. CAF
/// leaves the system's logger behind in such a thread, and the system's end would wait for the end
/// of that thread.
void leave_actor_system() noexcept;

} // namespace peercache::link
