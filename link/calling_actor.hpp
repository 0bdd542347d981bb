#pragma once

#include <caf/actor_system.hpp>
#include <caf/blocking_actor.hpp>
#include <caf/message_id.hpp>
#include <caf/scoped_execution_unit.hpp>

#include <vector>

namespace peercache::link {

/// A blocking actor for a thread that is not an actor, as caf::scoped_actor is. While the thread
/// waits for answers, the actor looks regularly whether the thread is interrupted
/// (common/interruption.hpp); an interruption fails the requests named by `fail_when_interrupted`.
/// Threads: one at a time. Lifetime: ends before its system.
class calling_actor {
public:
  explicit calling_actor(caf::actor_system& system);
  ~calling_actor();
  calling_actor(const calling_actor&) = delete;
  calling_actor& operator=(const calling_actor&) = delete;

  caf::blocking_actor* operator->() const noexcept;
  const caf::strong_actor_ptr& address() const noexcept { return self_; }

  /// Sets the requests that an interruption answers with an error; replaces the requests set
  /// before.
  void fail_when_interrupted(std::vector<caf::message_id> requests);

private:
  class body;

  caf::scoped_execution_unit context_;
  caf::strong_actor_ptr self_;
};

/// Answers a request of the actor `asker` with the error `request_timeout`. Threads: any.
void fail_request(const caf::strong_actor_ptr& asker, caf::message_id request);

} // namespace peercache::link
