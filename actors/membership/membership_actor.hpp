#pragma once

#include "actors/link_names.hpp"
#include "actors/membership/seed_answers.hpp"
#include "actors/membership/seed_names.hpp"
#include "actors/membership/turned_away.hpp"
#include "common/log_limit.hpp"
#include "discovery/membership.hpp"
#include "link/beats.hpp"
#include "link/links_actor.hpp"
#include "link/protocol/gateway.hpp"
#include "link/protocol/membership.hpp"

#include <functional>
#include <map>
#include <memory>
#include <vector>

namespace peercache::actors {

/// Options of the membership actor; `on_expelled` and `on_rejoined` are set.
///
/// Threads: the functions are called in that actor, and do not block. Lifetime: what the functions
/// refer to outlives the actor.
struct membership_actor_options {
  discovery::membership_options machine;
  discovery::member self;
  std::string cluster;
  /// The wire version that this node's hellos name; tests set another one.
  std::uint32_t speaks = wire_version;
  connector_actor connector;
  links_actor links; ///< Receives each adopted view.
  /// Called in this actor when the cluster goes on without this process, with the view that lacks
  /// it: this node hears of no more changes. The call comes before the cluster is asked to take the
  /// node back.
  std::function<void(const discovery::view& without)> on_expelled;
  /// Called in this actor when the cluster had expelled this process and took it back: no shard
  /// remembers its pages.
  std::function<void()> on_rejoined;
  /// Called in this actor with each new reason why this process is out of the cluster's view, in
  /// words; empty: it is in.
  std::function<void(const std::string& why)> on_outside = [](const std::string&) {};
  /// Looks for the addresses of seeds that have none; null: all seeds in `machine` have addresses.
  std::shared_ptr<seed_names> names;
};

/// State of the membership actor: the machine that decides, and what the machine does not know:
/// connections, processes that ask to come in, and what was logged.
///
/// Threads: the actor's messages, one at a time. Invariant: `searches` counts the `callers` that
/// are being looked for.
struct membership_state {
  membership_state() = default;

  /// The connection to the node at one address, and how dialing it goes.
  struct route {
    route() = default;
    membership_actor peer; ///< Null while there is no connection.
    incarnation inc;
    node_id id{}; ///< The node that last answered at the address.
    bool dialing = false;
    std::string waiting;                          ///< The newest packet, kept while dialing.
    caf::actor_clock::time_point refused_until{}; ///< No dialing before this time.
  };

  /// A process that asks to come in, and whether it was reached at its address.
  struct caller {
    caller() = default;
    discovery::join_packet join;          ///< The newest join that the process sent.
    membership_actor sender;              ///< Hears of a refusal; null: `join` was forwarded.
    bool asking = true;                   ///< The process is being looked for.
    std::string fault;                    ///< Why the process was not reached; empty when it was.
    caf::actor_clock::time_point until{}; ///< How long the outcome is remembered.
  };

  membership_actor_options options;
  std::unique_ptr<discovery::membership> machine;
  std::map<discovery::endpoint, route> routes;
  caf::actor_clock::time_point look_for_seeds_at{}; ///< No look for seeds before this time.
  discovery::view told;                             ///< The view that the log last told of.
  bool had_company = false;   ///< Some view of this process had another member.
  seed_answers answers;       ///< Answers of the nodes that this node asked to take it in.
  std::string outside;        ///< Why this process is out of the view; empty while it is in.
  std::string outside_logged; ///< The reason that was logged last.
  /// Since when this process is out of the view; zero: it is in.
  caf::actor_clock::time_point outside_since{};
  caf::actor_clock::time_point outside_log_next{}; ///< No log line that the process is out before
                                                   ///< this time.
  std::map<incarnation, caller> callers;
  std::size_t searches = 0; ///< How many of `callers` are being looked for.
  turned_away refused;      ///< Processes that are not taken in, by name and address.
  /// Limits the log lines about processes that ask to come in and cannot be reached at the address
  /// that they advertise, for each address.
  log_limit refusals;
  /// Requests that are answered when this node's vote is no longer needed.
  std::vector<caf::typed_response_promise<bool>> goodbyes;
  bool runs = false; ///< The first beat has come.
  link::beats ticks;
  static inline const char* name = "membership";

  metrics::samples samples() const;
  membership_report report(caf::actor_clock::time_point now) const;
  /// Why this process is in no view that others go on with, in words; empty while it is in one.
  std::string why_outside() const;
  bool is_seed(const discovery::endpoint& at) const;
  /// Forgets the addresses of which nothing is left to know: no seeds, without a connection.
  void forget_routes(caf::actor_clock::time_point now);
  /// Whether the seed is a member of `view`, under this address or another, or `view` lists it as
  /// gone.
  bool is_accounted_for(const discovery::endpoint& seed, const discovery::view& view) const;
  /// Whether this node was always alone in its views, and its only seeds are addresses of its own.
  bool has_only_itself_as_seed() const;
  /// Takes in the addresses that were found for seeds that had none, and why other seeds still have
  /// none.
  void take_addresses(caf::actor_clock::time_point now);
  /// Notes that a process that asked to come in was not taken in. @param fix what to do, in words;
  /// empty where `why` says it
  void turn_away(const discovery::member& who, const std::string& why, const char* fix,
                 caf::actor_clock::time_point now);
};

/// Carries out what the membership machine decides: packets to addresses, views to the links. An
/// address without a connection is dialed, and then gets the newest packet; the machine repeats
/// older packets itself. Threads: scheduler. Asks: other nodes' membership actors, without waiting
/// for one.
membership_actor::behavior_type
run_membership(membership_actor::stateful_pointer<membership_state> self,
               membership_actor_options options);

} // namespace peercache::actors
