#include "actors/membership/membership_actor.hpp"

#include "actors/membership/join_check.hpp"
#include "common/assert.hpp"
#include "common/fault_ids.hpp"
#include "common/log.hpp"
#include "common/printable.hpp"
#include "common/unix_time.hpp"
#include "discovery/packet_codec.hpp"
#include "discovery/view_changes.hpp"
#include "discovery/view_codec.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace peercache::actors {

using metrics::metric;

namespace {

/// Returns, in words for operators, why this process is missing in the newest view.
std::string pushed_out_of(const discovery::membership& machine) {
  const auto& latest = machine.newest();
  const auto& self = machine.self();
  const auto view = std::to_string(latest.term) + "." + std::to_string(latest.version);
  if (const auto* other = latest.find(self.id))
    return "pushed out: in view " + view + " another process is '" + self.name + "', at " +
           other->host + ":" + std::to_string(other->control_port) +
           "; give one of the two another node.name, or stop one";
  const auto* gone = latest.find_gone(self.name);
  return "pushed out: view " + view + " is without this node" +
         (gone == nullptr ? "" : " (" + std::string(to_string(gone->why)) + ")") +
         "; it asks to be taken in again, look at the network between it and the masters if it "
         "stays so";
}

/// A node that asks to come in, in words.
std::string caller_text(const discovery::member& who) {
  return "the node '" + peer_text(who.name) + "' at " + peer_text(who.host) + ":" +
         std::to_string(who.control_port);
}

} // namespace

std::string membership_state::why_outside() const {
  using phase = discovery::membership::phase;
  const auto state = machine->state();
  if (state != phase::looking && state != phase::rejoining)
    return {};
  const auto said = answers.text(options.machine.seeds);
  return (state == phase::looking ? "joining: no view with this node in it yet"
                                  : pushed_out_of(*machine)) +
         (said.empty() ? "" : "; " + said);
}

metrics::samples membership_state::samples() const {
  metrics::samples now;
  const auto& view = machine->current();
  now.set(metric::view_term, view.term);
  now.set(metric::view_version, view.version);
  now.set(metric::view_masters_lost, view.masters_lost());
  now.set(metric::members, view.members.size());
  now.set(metric::members_gone, view.gone.size());
  now.set(metric::is_master, machine->is_master());
  now.set(metric::is_leader, machine->leads());
  const auto* own = view.find(machine->self().inc);
  now.set(metric::draining, own != nullptr && own->draining);
  return now;
}

membership_report membership_state::report(caf::actor_clock::time_point now) const {
  using phase = discovery::membership::phase;
  membership_report said;
  const auto& view = machine->current();
  const auto state = machine->state();
  const bool outside = state == phase::looking || state == phase::rejoining;
  said.faults = outside ? answers.faults(options.machine.seeds)
                        : answers.faults_of_names(options.machine.seeds);
  if (state == phase::rejoining)
    said.faults.insert(said.faults.begin(),
                       node_fault(fault_ids::pushed_out, pushed_out_of(*machine), ""));
  for (auto& caller : refused.faults(now))
    said.faults.push_back(std::move(caller));
  if (has_only_itself_as_seed())
    said.faults.emplace_back(fault_ids::seed_only_self,
                             "is alone, and discovery.seeds names nobody but itself",
                             "name the other nodes there, or nobody where one node is the cluster");
  if (view.members.empty())
    return said;
  for (const auto& seed : options.machine.seeds)
    if (!is_accounted_for(seed, view) && !answers.lacks_address(seed))
      said.missing_seeds.push_back(seed.host + ":" + std::to_string(seed.port));
  return said;
}

void membership_state::forget_routes(caf::actor_clock::time_point now) {
  std::erase_if(routes, [&](const auto& entry) {
    const auto& [at, way] = entry;
    return !way.peer && !way.dialing && now >= way.refused_until && !is_seed(at);
  });
}

void membership_state::turn_away(const discovery::member& who, const std::string& why,
                                 const char* fix, caf::actor_clock::time_point now) {
  refused.note(caller_text(who), printable(why), fix, now, unix_ms());
}

namespace {

using namespace std::chrono_literals;

/// Pause before a peer with another cluster.name or version is dialed again.
constexpr auto refusal_pause = 10s;
/// Pause between two looks for seeds that are not members.
constexpr auto seed_pause = 10s;
/// For how long a node is out of the view before the log says why, and the pause between two lines.
constexpr auto outside_patience = 2s;
constexpr auto outside_pause = 10s;

using membership_pointer = membership_actor::stateful_pointer<membership_state>;

void connected(membership_pointer self, const discovery::endpoint& to,
               const peer_welcome& welcome) {
  auto& way = self->state.routes[to];
  PEERCACHE_ASSERT(way.dialing); // Each call of `dial` ends once.
  way.dialing = false;
  auto member = discovery::decode_member(welcome.member);
  if (!member || !welcome.membership) // The process that answers may not be a node.
    return self->state.forget_routes(self->clock().now());
  way.peer = welcome.membership;
  way.inc = member->inc;
  way.id = member->id;
  if (self->state.is_seed(to))
    self->state.answers.welcomed(to, member->name);
  self->monitor(welcome.membership);
  if (auto packet = std::exchange(way.waiting, {}); !packet.empty())
    self->send(way.peer, packet_atom_v, std::move(packet));
}

/// Notes that an address could not be dialed, and why: a seed that refuses this node keeps it out
/// of the cluster for good.
void dial_failed(membership_pointer self, const discovery::endpoint& to, const caf::error& why) {
  auto& way = self->state.routes[to];
  PEERCACHE_ASSERT(way.dialing);
  way.dialing = false;
  way.waiting.clear();
  way.id = {};
  way.inc = {};
  if (self->state.is_seed(to))
    self->state.answers.failed(to, why);
  const bool refused =
      why == caf::sec::incompatible_application_ids || why == caf::sec::incompatible_versions;
  if (refused) // Each hello makes a line in the refusing node's log.
    way.refused_until = self->clock().now() + refusal_pause;
  self->state.forget_routes(self->clock().now());
  log::debug("membership: {}:{} is out of reach: {}", to.host, to.port, self->system().render(why));
}

void dial(membership_pointer self, const discovery::endpoint& to) {
  auto& state = self->state;
  PEERCACHE_ASSERT(!state.routes[to].dialing); // Only one dial to an address at a time.
  state.routes[to].dialing = true;
  auto failed = [self, to](const caf::error& why) { dial_failed(self, to, why); };
  self->request(state.options.connector, 30s, dial_atom_v, to.host, to.port, std::string(),
                from_here{})
      .then(
          [self, to, failed](const gateway_actor& gateway) {
            auto& own = self->state.options;
            self->request(gateway, 1s, hello_atom_v, own.speaks, own.cluster, own.self.name)
                .then([self, to](const peer_welcome& welcome) { connected(self, to, welcome); },
                      failed);
          },
          failed);
}

void send(membership_pointer self, const discovery::send_packet& order) {
  auto& state = self->state;
  if (state.answers.lacks_address(order.to))
    return;
  auto& way = state.routes[order.to];
  auto packet = discovery::encode_packet(order.body, state.options.cluster);
  if (way.peer) {
    self->send(way.peer, packet_atom_v, std::move(packet));
    return;
  }
  if (!way.dialing && self->clock().now() < way.refused_until)
    return;
  way.waiting = std::move(packet);
  if (!way.dialing)
    dial(self, order.to);
}

void adopt(membership_pointer self, const discovery::view& latest) {
  auto& state = self->state;
  const auto before = std::exchange(state.told, latest);
  state.had_company = state.had_company || latest.members.size() > 1;
  for (const auto& member : latest.members)
    state.refused.forget(caller_text(member));
  state.forget_routes(self->clock().now());
  log::info("membership: view {}.{} with {} members, leader {}; {}", latest.term, latest.version,
            latest.members.size(), latest.masters.empty() ? "none" : latest.masters.front(),
            discovery::changes_between(before, latest));
  if (latest.fragment())
    log::warn("membership: this view is a fragment: {} of {} masters are not in it; it is whole "
              "again when most of them have been started again",
              latest.masters_lost(), latest.former_masters.size());
  self->send(state.options.links, view_atom_v, discovery::encode_view(latest), from_here{});
}

void carry_out(membership_pointer self, const std::vector<discovery::action>& actions) {
  for (const auto& action : actions) {
    if (const auto* order = std::get_if<discovery::send_packet>(&action))
      send(self, *order);
    else if (const auto* news = std::get_if<discovery::adopt_view>(&action))
      adopt(self, news->latest);
    else if (const auto* no = std::get_if<discovery::join_refused>(&action))
      self->state.answers.refused(no->why, no->reason);
    else if (const auto* silence = std::get_if<discovery::join_unanswered>(&action))
      log::warn("membership: {}", silence->reason);
    else if (const auto* caller = std::get_if<discovery::join_turned_away>(&action))
      self->state.turn_away(caller->who, caller->reason,
                            "`peercache status` at that address says what to do there",
                            self->clock().now());
  }
}

/// Asks seeds at which no member is known who they are: one may be another address of a member,
/// which only its answer tells. The membership machine itself greets seeds only while its node
/// joins, leads the cluster, or hears no master.
void look_for_seeds(membership_pointer self) {
  auto& state = self->state;
  const auto now = self->clock().now();
  const auto& view = state.machine->current();
  if (view.members.empty() || now < state.look_for_seeds_at)
    return;
  state.look_for_seeds_at = now + seed_pause;
  for (const auto& seed : state.options.machine.seeds) {
    if (state.answers.lacks_address(seed))
      continue;
    const auto& way = state.routes[seed];
    if (!state.is_accounted_for(seed, view) && !way.peer && !way.dialing &&
        now >= way.refused_until)
      dial(self, seed);
  }
}

/// Answers the requests in `goodbyes` once this node may end.
void say_goodbye(membership_pointer self) {
  auto& waiting = self->state.goodbyes;
  if (waiting.empty() || !self->state.machine->may_end(self->clock().now()))
    return;
  for (auto& goodbye : std::exchange(waiting, {}))
    goodbye.deliver(true);
}

/// Tells the node at once, and the log after a while, why this process is out of the view, or that
/// it is in.
void tell_if_outside(membership_pointer self) {
  auto& state = self->state;
  const auto now = self->clock().now();
  auto why = state.why_outside();
  if (why != state.outside) {
    state.outside = why;
    state.options.on_outside(why);
  }
  if (why.empty()) {
    if (std::exchange(state.outside_since, {}) != caf::actor_clock::time_point{})
      state.answers.clear();
    state.outside_logged.clear();
    return;
  }
  if (state.outside_since == caf::actor_clock::time_point{})
    state.outside_since = now;
  if (now - state.outside_since < outside_patience || now < state.outside_log_next ||
      why == state.outside_logged)
    return;
  state.outside_log_next = now + outside_pause;
  log::warn("membership: {}", why);
  state.outside_logged = std::move(why);
}

/// Passes one event to the membership machine and carries out its decisions.
template <class Event>
void step(membership_pointer self, Event event) {
  using phase = discovery::membership::phase;
  auto& machine = *self->state.machine;
  auto before = machine.state();
  auto actions = event(machine, self->clock().now());
  if (before == phase::joined && machine.state() == phase::rejoining)
    self->state.options.on_expelled(machine.newest());
  carry_out(self, actions);
  if (before == phase::rejoining && machine.state() == phase::joined)
    self->state.options.on_rejoined();
  tell_if_outside(self);
  say_goodbye(self);
  if (self->state.runs)
    self->state.ticks.plan(self, machine.next_tick(self->clock().now()));
}

/// Lets the cluster forget that a member is gone. Returns whether this node leads and knows of it.
bool forget(membership_pointer self, const std::string& name) {
  const auto& machine = *self->state.machine;
  if (!machine.leads() || machine.current().find_gone(name) == nullptr)
    return false;
  log::info("membership: an operator has the cluster forget that {} is gone", name);
  step(self, [&](auto& here, auto now) { return here.forget(name, now); });
  return true;
}

void receive_packet(membership_pointer self, const std::string& bytes) {
  const auto packet = discovery::decode_packet(bytes, self->state.options.cluster);
  if (!packet)
    return log::debug("membership: dropped a packet: {}", to_string(packet.error()));
  const auto hand_over = [self](const discovery::packet& received) {
    step(self, [&](auto& machine, auto now) { return machine.on_packet(received, now); });
  };
  if (const auto* join = std::get_if<discovery::join_packet>(&*packet))
    check_join(self, *join, hand_over);
  else
    hand_over(*packet);
}

void peer_lost(membership_pointer self, const caf::actor_addr& who) {
  std::set<incarnation> lost;
  for (auto& [at, way] : self->state.routes) {
    if (!way.peer || way.peer.address() != who)
      continue;
    way.peer = nullptr;
    if (self->state.is_seed(at))
      self->state.answers.broke(at);
    lost.insert(way.inc);
  }
  self->state.forget_routes(self->clock().now());
  for (const auto& inc : lost)
    step(self, [&](auto& machine, auto now) { return machine.on_peer_lost(inc, now); });
}

} // namespace

membership_actor::behavior_type run_membership(membership_pointer self,
                                               membership_actor_options options) {
  auto& state = self->state;
  state.options = std::move(options);
  PEERCACHE_ASSERT(state.options.on_expelled && state.options.on_rejoined);
  state.machine = std::make_unique<discovery::membership>(state.options.machine, state.options.self,
                                                          self->clock().now());
  self->set_default_handler(caf::drop);
  self->set_down_handler([self](const caf::down_msg& down) { peer_lost(self, down.source); });
  return {
      [self](packet_atom, const std::string& bytes) { receive_packet(self, bytes); },
      [self](beat_atom, from_here) {
        self->state.runs = true;
        if (!self->state.ticks.due(self->clock().now()))
          return;
        self->state.take_addresses(self->clock().now());
        step(self, [](auto& machine, auto now) { return machine.tick(now); });
        look_for_seeds(self);
      },
      [self](leave_atom, from_here) -> caf::result<bool> {
        auto goodbye = self->make_response_promise<bool>();
        self->state.goodbyes.push_back(goodbye);
        step(self, [](auto& machine, auto now) { return machine.leave(now); });
        return goodbye;
      },
      [self](drain_atom, bool draining, from_here) {
        step(self, [&](auto& machine, auto now) { return machine.set_draining(draining, now); });
        return true;
      },
      [self](forget_atom, const std::string& name, from_here) { return forget(self, name); },
      [self](stats_atom) -> caf::result<metrics::samples, membership_report> {
        return {self->state.samples(), self->state.report(self->clock().now())};
      },
      [self](view_atom) { return discovery::encode_view(self->state.machine->current()); },
  };
}

} // namespace peercache::actors
