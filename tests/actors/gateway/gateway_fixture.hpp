#pragma once

#include "actors/gateway/gateway_actor.hpp"
#include "tests/actors/cluster_fixture.hpp"

#include <string>
#include <utility>

namespace peercache::actors {

/// A client that ignores all messages. The second argument is not used: CAF 0.17 needs one, because
/// without it it binds a reference to a null pointer.
inline session_listener::behavior_type silent_client(session_listener::pointer, const bool*) {
  return {[](view_atom, const std::string&) {}, [](beat_atom, from_here) {}};
}

/// An actor that answers nothing. The second argument is for CAF, as `silent_client`'s.
inline caf::behavior mute_actor(caf::event_based_actor* self, const bool*) {
  self->set_default_handler(caf::skip);
  return {[](turn_atom) {}};
}

/// A node's gateway with its membership, for tests that spawn it: `spawn_gateway(usual_options())`,
/// or with changes. The gateway is ended here, at the latest: a class whose members the options use
/// ends it before.
class gateway_fixture : public cluster_fixture {
protected:
  bool draining = false; ///< Whether the membership was told to drain.
  membership_actor membership = system.spawn(fake_membership, &draining);
  gateway_actor gateway;

  ~gateway_fixture() override {
    if (gateway)
      stop(gateway);
    stop(membership);
  }

  /// The options of a gateway whose clients live and hold nothing, and whose disk was scanned.
  gateway_options usual_options() {
    gateway_options options;
    options.cluster = "test";
    options.pool_name = "/pool";
    options.self = here;
    options.directory = shard_here;
    options.membership = membership;
    options.pool = pool;
    options.disk_scanned = [] { return 1.0; };
    options.caught_up = [] { return true; };
    options.session_is_dead = [](std::uint32_t) { return false; };
    options.session_is_held = [](std::uint32_t) { return false; };
    options.ready = [](bool, const std::string&) {};
    return options;
  }
  void spawn_gateway(gateway_options options) {
    gateway = system.spawn(run_gateway, std::move(options));
  }
};

} // namespace peercache::actors
