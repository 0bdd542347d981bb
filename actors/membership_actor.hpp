#pragma once

#include "actors/link_names.hpp"
#include "discovery/membership.hpp"
#include "link/links_actor.hpp"
#include "link/protocol/gateway.hpp"
#include "link/protocol/membership.hpp"

#include <functional>
#include <map>
#include <memory>
#include <vector>

namespace peercache::actors {

struct membership_actor_options {
  discovery::membership_options machine;
  discovery::member self;
  std::string cluster;
  connector_actor connector;
  links_actor links; ///< Is told each adopted view.
  /// The cluster goes on without this process, in that view: nobody tells it of changes any more.
  /// Called in this actor, before the cluster is asked to take it back.
  std::function<void(const discovery::view& without)> on_expelled;
  /// The cluster had expelled this process and took it back: nobody remembers its pages. Called in
  /// this actor.
  std::function<void()> on_rejoined;
};

struct membership_state {
  membership_state() = default;

  /// The way to one address.
  struct route {
    route() = default;
    membership_actor peer; ///< Null while there is no connection.
    incarnation inc;
    bool dialing = false;
    std::string waiting;                          ///< The newest packet, while dialing.
    bool refused = false;                         ///< And that was said.
    caf::actor_clock::time_point refused_until{}; ///< Not dialed again before.
  };

  membership_actor_options options;
  std::unique_ptr<discovery::membership> machine;
  std::map<discovery::endpoint, route> routes;
  std::vector<caf::typed_response_promise<bool>> goodbyes; ///< Who waits for the end of its vote.
  static inline const char* name = "membership";

  membership_report report() const;
};

/// Carries out what the membership machine decides: packets to addresses, views to the links. An
/// address without a connection is dialed, and gets the newest packet for it once there is one; the
/// machine repeats itself. Threads: scheduler. Asks: other nodes' membership actors, never waits
/// for one.
membership_actor::behavior_type
run_membership(membership_actor::stateful_pointer<membership_state> self,
               membership_actor_options options);

} // namespace peercache::actors
