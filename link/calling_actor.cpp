#include "link/calling_actor.hpp"

#include "common/interruption.hpp"

#include <caf/actor.hpp>
#include <caf/actor_cast.hpp>
#include <caf/mailbox_element.hpp>

#include <utility>

namespace peercache::link {

class calling_actor::body final : public caf::blocking_actor {
public:
  explicit body(caf::actor_config& config) : blocking_actor(config) {}

  const char* name() const override { return "calling_actor"; }

  /// Starts no thread: the actor runs in that of its caller.
  void launch(caf::execution_unit*, bool, bool) override {
    register_at_system();
    initialize();
  }

  using blocking_actor::await_data;

  /// Waits for a message; while the thread can be interrupted, wakes every `interruption::interval`
  /// to look. CAF calls this whenever a `receive` has seen all that is in the mailbox.
  void await_data() override {
    while (interruption::possible()) {
      if (interruption::look())
        fail_awaited();
      // The end of the wait is a time of CAF's clock, which may be set back or forth.
      if (await_data(timeout_type::clock::now() + interruption::interval))
        return;
    }
    blocking_actor::await_data();
  }

  std::vector<caf::message_id> awaited;

private:
  void fail_awaited() {
    for (const auto& request : std::exchange(awaited, {}))
      fail_request(ctrl(), request);
  }
};

calling_actor::calling_actor(caf::actor_system& system) : context_(&system) {
  caf::actor_config config{&context_};
  self_ = caf::actor_cast<caf::strong_actor_ptr>(
      system.spawn_class<body, caf::no_spawn_options>(config));
}

calling_actor::~calling_actor() {
  (*this)->cleanup(caf::exit_reason::normal, &context_);
}

caf::blocking_actor* calling_actor::operator->() const noexcept {
  return static_cast<body*>(caf::actor_cast<caf::abstract_actor*>(self_));
}

void calling_actor::fail_when_interrupted(std::vector<caf::message_id> requests) {
  static_cast<body*>(operator->())->awaited = std::move(requests);
}

void fail_request(const caf::strong_actor_ptr& asker, caf::message_id request) {
  asker->enqueue(
      caf::make_mailbox_element(nullptr, request, {}, caf::make_error(caf::sec::request_timeout)),
      nullptr);
}

} // namespace peercache::link
