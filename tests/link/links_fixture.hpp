#pragma once

#include "discovery/view_codec.hpp"
#include "link/links_actor.hpp"
#include "tests/link/named_members.hpp"
#include "tests/support/actor_fixture.hpp"

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace peercache::link {

/// How `slow_connector` answers dials and trials of ports.
struct fake_network {
  struct held_trial {
    caf::typed_response_promise<std::string> promise;
    std::string why;
  };

  gateway_actor gateway; ///< Gateway to which each dial leads at once; null: dials stay open.
  /// For each port that cannot be connected: the reason.
  std::map<std::uint16_t, std::string> closed;
  int trials = 0;            ///< Trials of ports so far.
  bool holds_trials = false; ///< Trials of ports stay open.
  std::vector<held_trial> held;
};

inline connector_actor::behavior_type
slow_connector(connector_actor::pointer self,
               std::vector<caf::typed_response_promise<gateway_actor>>* dials, fake_network* net) {
  return {[self, dials, net](dial_atom, const std::string&, std::uint16_t, const std::string&,
                             from_here) {
            auto& promise = dials->emplace_back(self->make_response_promise<gateway_actor>());
            if (net->gateway)
              promise.deliver(net->gateway);
            return promise;
          },
          [self, net](try_atom, const std::string&, std::uint16_t port, from_here) {
            ++net->trials;
            auto promise = self->make_response_promise<std::string>();
            const auto closed = net->closed.find(port);
            const auto why = closed == net->closed.end() ? std::string{} : closed->second;
            if (net->holds_trials)
              net->held.push_back({promise, why});
            else
              promise.deliver(why);
            return promise;
          },
          // The test sends this to end what is open, because only the actor that made a promise can
          // keep it.
          [dials, net](beat_atom, from_here) {
            if (dials->back().pending())
              dials->back().deliver(caf::make_error(caf::sec::cannot_connect_to_node));
            for (auto& trial : std::exchange(net->held, {}))
              trial.promise.deliver(trial.why);
          }};
}

/// A gateway that welcomes callers as the member `who`. @param directory any actor: nobody sends to
/// it
inline caf::behavior welcomes(caf::event_based_actor*, const discovery::member& who,
                              const directory_actor& directory) {
  return {[=](hello_atom, std::uint32_t, const std::string&, const std::string&) {
    peer_welcome welcome;
    welcome.member = discovery::encode_member(who);
    welcome.directory = directory;
    welcome.lookup_port = 77;
    return welcome;
  }};
}

/// A links actor of a client, whose connector is the test's.
class links_fixture : public test::actor_fixture {
protected:
  std::vector<caf::typed_response_promise<gateway_actor>> dials;
  std::vector<topology_ptr> published;
  fake_network net;
  connector_actor connector = system.spawn(slow_connector, &dials, &net);
  links_actor links = spawn_links();

  ~links_fixture() override {
    net.gateway = nullptr;
    stop(links);
    stop(connector);
  }

  links_actor spawn_links(std::shared_ptr<const peer> own = nullptr) {
    links_options options;
    options.self = std::move(own);
    options.connector = connector;
    options.publish = [this](const topology_ptr& next) { published.push_back(next); };
    return system.spawn(run_links, std::move(options));
  }

  /// From now on each dial leads to the gateway of the node `who`.
  void greet_as(const discovery::member& who) {
    net.gateway = caf::actor_cast<gateway_actor>(
        system.spawn(welcomes, who, caf::actor_cast<directory_actor>(connector)));
  }
  /// Fails the last dial, if it is open, and ends all open trials of ports.
  void end_what_is_open() {
    caf::anon_send(connector, beat_atom_v, from_here{});
    settle();
  }
};

} // namespace peercache::link
