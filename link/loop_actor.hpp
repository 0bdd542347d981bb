#pragma once

#include <caf/actor_system.hpp>
#include <caf/config.hpp>
#include <caf/io/middleman.hpp>
#include <caf/io/network/multiplexer.hpp>
#include <caf/stateful_actor.hpp>

#include <functional>
#include <type_traits>
#include <utility>

namespace peercache::link {

// CAF's multiplexer runs an actor itself when `subtype` says `io_actor`, and hands others to the
// scheduler. Nothing that is documented says so, and other releases do otherwise.
static_assert(CAF_MAJOR_VERSION == 0 && CAF_MINOR_VERSION == 17);

/// An actor whose handlers run in the thread of the actor system's sockets, as those of CAF's
/// brokers do. A message that came by a socket is handled by the thread that received it, and an
/// answer to another process is sent by the thread that made it: two wake-ups of threads less than
/// with an actor that a worker of the scheduler runs. Meant for actors that other processes ask
/// for little things: while a handler runs, no socket of the system is served, and no heartbeat is
/// sent.
template <class State, class Base>
class loop_actor final : public caf::stateful_actor<State, Base> {
  using super = caf::stateful_actor<State, Base>;

public:
  using begin = std::function<typename Base::behavior_type(super*)>;

  loop_actor(caf::actor_config& config, begin body)
      : super(config), loop_(&this->home_system().middleman().backend()), body_(std::move(body)) {}

  using super::enqueue;
  void enqueue(caf::mailbox_element_ptr what, caf::execution_unit* /*of_sender*/) override {
    super::enqueue(std::move(what), loop_);
  }
  caf::resumable::subtype_t subtype() const override { return caf::resumable::io_actor; }

protected:
  typename Base::behavior_type make_behavior() override { return std::exchange(body_, {})(this); }

private:
  caf::io::network::multiplexer* const loop_;
  begin body_;
};

/// Spawns a `loop_actor` that begins with `run`, as `system.spawn(run, args...)` spawns an actor of
/// the scheduler. @pre the system has a middleman, whose thread runs
template <class State, class Base, class... Params>
typename Base::actor_hdl
spawn_on_loop(caf::actor_system& system,
              typename Base::behavior_type (*run)(caf::stateful_actor<State, Base>*, Params...),
              std::type_identity_t<std::decay_t<Params>>... args) {
  using spawned = loop_actor<State, Base>;
  caf::actor_config config{&system.middleman().backend()};
  typename spawned::begin body = [run, ... held = std::move(args)](auto* self) mutable {
    return run(self, std::move(held)...);
  };
  return system.template spawn_class<spawned, caf::no_spawn_options>(config, std::move(body));
}

} // namespace peercache::link
