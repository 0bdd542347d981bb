#include "link/links_actor.hpp"

#include "common/assert.hpp"
#include "common/fault_ids.hpp"
#include "common/guards.hpp"
#include "common/log.hpp"
#include "common/unix_time.hpp"
#include "discovery/view_codec.hpp"

#include <algorithm>
#include <utility>

namespace peercache::link {

bool links_state::adopt(discovery::view next, source told_by, caf::actor_clock::time_point now) {
  const bool of_own_node = !options.self && told_by == source::own_node;
  const bool counts = of_own_node ? followed.takes_of_own_node(next, view, now)
                                  : followed.takes_of_other_node(next, view);
  if (next == view || (!counts && guard_on(guard::view)))
    return false;
  take(std::move(next), now);
  return true;
}

bool links_state::go_back(caf::actor_clock::time_point now) {
  const auto issuer = links.find(view.issuer);
  const bool may_live =
      issuer != links.end() && (issuer->second.handles.linked() || !issuer->second.handles.tried);
  const auto* older = followed.back_from(view, may_live, now);
  if (older == nullptr)
    return false;
  take(*older, now);
  return true;
}

void links_state::take(discovery::view next, caf::actor_clock::time_point now) {
  if (!view.members.empty())
    past.remember(std::make_shared<const discovery::hash_ring>(ring), now);
  view = std::move(next);
  std::erase_if(links, [this](const auto& known) { return view.find(known.first) == nullptr; });
  for (const auto& member : view.members) {
    auto& known = links[member.inc];
    if (options.self && options.self->self.inc == member.inc)
      known.handles = *options.self;
    known.handles.self = member; // The view's entry is newer: it says whether the member drains.
  }
  ring = discovery::hash_ring{view.members, ring};
}

bool links_state::misses_some() const noexcept {
  return std::any_of(links.begin(), links.end(),
                     [](const auto& known) { return !known.second.handles.linked(); });
}

topology_ptr links_state::snapshot() const {
  auto next = std::make_shared<topology>();
  next->view = view;
  next->ring = ring;
  next->past = past;
  for (const auto& member : view.members)
    next->peers.push_back(links.at(member.inc).handles);
  // Each member of the view has its peer at the same index.
  PEERCACHE_ASSERT(next->peers.size() == next->view.members.size());
  return next;
}

void links_state::cut(link& known, caf::actor_clock::time_point retry_at) {
  peer bare;
  bare.self = known.handles.self;
  bare.tried = true;
  known.handles = bare;
  known.retry_at = retry_at;
}

bool links_state::lost(const caf::actor_addr& address, caf::actor_clock::time_point retry_at) {
  for (auto& [inc, known] : links) {
    if (!known.handles.gateway || known.handles.gateway.address() != address)
      continue;
    cut(known, retry_at);
    return true;
  }
  return false;
}

namespace {

/// Number of failed trials in a row that make a port a fault: a node that is just starting or
/// ending answers no trial.
constexpr unsigned failures_min = 2;
/// How many members' ports are tried in one beat, so that a node in a cluster of a thousand has few
/// sockets open for trials.
constexpr std::size_t trials_per_beat = 16;

void add_fault(const peer& who, std::uint16_t port, const char* option, const char* costs,
               const links_state::port_trial& trial, links_report& said) {
  if (trial.failures < failures_min)
    return;
  said.faults.emplace_back(fault_ids::port_out_of_reach,
                           "cannot connect to " + who.self.host + ":" + std::to_string(port) +
                               " (" + option + " of " + who.self.name + "): " + trial.why +
                               ", though its control port answers; " + costs,
                           "open the port in the firewalls between the two hosts", trial.since_ms);
}

} // namespace

links_report links_state::report() const {
  links_report said;
  for (const auto& [inc, each] : links) {
    const auto& who = each.handles;
    if (!who.linked())
      continue;
    add_fault(who, who.self.data_port, "net.data_port", "its pages are misses here", each.data,
              said);
    add_fault(who, who.lookup_port, "net.lookup_port", "clients of this host take it for gone",
              each.lookup, said);
  }
  return said;
}

namespace {

using links_pointer = links_actor::stateful_pointer<links_state>;

/// Plans this actor's next beat: soon when a member has to be dialled again or a view may be given
/// up, after a longer rest otherwise.
void plan_beat(links_pointer self) {
  auto& state = self->state;
  const auto often = state.options.retry / 2;
  const bool hurries = state.misses_some() || state.followed.is_ahead(state.view);
  state.beat.plan(self, hurries ? often : std::max(often, rest_period));
}

void dial_failed(links_pointer self, const incarnation& inc, const caf::error& why) {
  auto& state = self->state;
  auto found = state.links.find(inc);
  if (found == state.links.end())
    return;
  found->second.dialing = false;
  found->second.retry_at = self->clock().now() + state.options.retry;
  log::debug("links: {} is out of reach: {}", found->second.handles.self.name,
             self->system().render(why));
  if (!std::exchange(found->second.handles.tried, true))
    state.options.publish(state.snapshot());
}

void linked(links_pointer self, const incarnation& inc, const gateway_actor& gateway,
            const peer_welcome& welcome) {
  auto& state = self->state;
  auto found = state.links.find(inc);
  if (found == state.links.end())
    return;
  auto said = discovery::decode_member(welcome.member);
  if (!said || said->inc != inc)
    return dial_failed(self, inc, caf::make_error(caf::sec::runtime_error, "another incarnation"));
  auto& known = found->second;
  PEERCACHE_ASSERT(gateway);
  known.dialing = false;
  known.handles.tried = true;
  known.handles.gateway = gateway;
  known.handles.directory = welcome.directory;
  known.handles.membership = welcome.membership;
  known.handles.lookup_port = welcome.lookup_port;
  self->monitor(gateway);
  state.beat.plan(self, state.options.retry / 2); // At that beat the member's ports are tried.
  log::debug("links: connected with {}", known.handles.self.name);
  state.options.publish(state.snapshot());
}

void dial(links_pointer self, const incarnation& inc, links_state::link& known) {
  auto& options = self->state.options;
  // A member is greeted again only when its last greeting has ended.
  PEERCACHE_ASSERT(!known.dialing);
  known.dialing = true;
  if (options.reach)
    return options.reach(known.handles.self);
  auto failed = [self, inc](const caf::error& why) { dial_failed(self, inc, why); };
  self->request(options.connector, std::chrono::seconds(30), dial_atom_v, known.handles.self.host,
                known.handles.self.control_port, known.handles.self.name, from_here{})
      .then(
          [self, inc, failed](const gateway_actor& gateway) {
            auto& opts = self->state.options;
            self->request(gateway, opts.hello_timeout, hello_atom_v, wire_version, opts.cluster,
                          opts.own_name)
                .then([self, inc, gateway](
                          const peer_welcome& welcome) { linked(self, inc, gateway, welcome); },
                      failed);
          },
          failed);
}

void dial_whoever_is_missing(links_pointer self) {
  auto now = self->clock().now();
  for (auto& [inc, known] : self->state.links)
    if (!known.handles.linked() && !known.dialing && known.retry_at <= now)
      dial(self, inc, known);
  plan_beat(self);
}

/// Publishes the view that was just taken, and connects to its members.
void follow_view(links_pointer self) {
  if (self->state.options.keep_only)
    self->state.options.keep_only(self->state.view);
  self->state.options.publish(self->state.snapshot());
  dial_whoever_is_missing(self);
}

void hear_of_view(links_pointer self, const std::string& encoded, links_state::source told_by) {
  auto next = discovery::decode_view(encoded);
  if (next && self->state.adopt(std::move(*next), told_by, self->clock().now()))
    follow_view(self);
}

/// Notes, in a client, that the connection to a member stands or broke.
void reached(links_pointer self, const incarnation& inc, bool stands) {
  auto& state = self->state;
  const auto found = state.links.find(inc);
  if (found == state.links.end())
    return;
  auto& known = found->second;
  if (!stands && !known.handles.linked())
    return dial_failed(self, inc, caf::make_error(caf::sec::cannot_connect_to_node));
  known.dialing = false;
  if (!stands) {
    links_state::cut(known, self->clock().now());
    plan_beat(self);
  } else {
    known.handles.tried = true;
    known.handles.reached = true;
    known.handles.lookup_port = known.handles.self.lookup_port;
  }
  log::debug("links: the connection to {} {}", known.handles.self.name,
             stands ? "stands" : "broke");
  state.options.publish(state.snapshot());
}

/// Notes how the trial of a port has ended. @param which the port's field in `link`
void tried(links_pointer self, const incarnation& inc,
           links_state::port_trial links_state::link::*which, const std::string& why) {
  const auto found = self->state.links.find(inc);
  if (found == self->state.links.end())
    return;
  auto& trial = found->second.*which;
  trial.trying = false;
  if (why.empty()) {
    trial = {};
    return;
  }
  if (trial.failures++ == 0) {
    trial.since_ms = unix_ms();
    // By when it began: a connect takes a second to fail where a firewall drops it.
    auto& known = found->second;
    known.try_at = std::min(known.try_at, known.tried_at + self->state.options.try_ports_every / 4);
  }
  trial.why = why;
}

void try_port(links_pointer self, const incarnation& inc, links_state::link& known,
              std::uint16_t port, links_state::port_trial links_state::link::*which) {
  if (port == 0 || std::exchange((known.*which).trying, true))
    return;
  self->request(self->state.options.connector, std::chrono::seconds(30), try_atom_v,
                known.handles.self.host, port, from_here{})
      .then([self, inc, which](const std::string& why) { tried(self, inc, which, why); },
            [self, inc, which](const caf::error&) { tried(self, inc, which, "no answer"); });
}

/// Tries the ports of connected members whose time has come. Pages and look-ups do not go through
/// actors, so a member's actor connection says nothing of these ports. Returns whether some are
/// left for the next beat.
bool try_ports(links_pointer self) {
  auto& state = self->state;
  if (!state.options.self)
    return false;
  const auto now = self->clock().now();
  const auto soon = now + state.options.retry / 4; // Beats come a little early or late.
  std::size_t begun = 0;
  for (auto& [inc, known] : state.links) {
    if (inc == state.options.self->self.inc || !known.handles.linked() || known.try_at > soon)
      continue;
    if (++begun > trials_per_beat)
      return true;
    known.tried_at = now;
    known.try_at = now + state.options.try_ports_every;
    try_port(self, inc, known, known.handles.self.data_port, &links_state::link::data);
    try_port(self, inc, known, known.handles.lookup_port, &links_state::link::lookup);
  }
  return false;
}

} // namespace

links_actor::behavior_type run_links(links_pointer self, links_options options) {
  self->state.options = std::move(options);
  PEERCACHE_ASSERT(self->state.options.publish && self->state.options.retry.count() > 0);
  self->set_default_handler(caf::drop);
  self->set_down_handler([self](const caf::down_msg& down) {
    auto& state = self->state;
    if (!state.lost(down.source, self->clock().now()))
      return;
    plan_beat(self);
    state.options.publish(state.snapshot());
  });
  plan_beat(self);
  return {
      [self](view_atom, const std::string& view, from_here) {
        hear_of_view(self, view, links_state::source::own_node);
      },
      [self](tell_atom, const std::string& view, from_here) {
        hear_of_view(self, view, links_state::source::other_node);
      },
      [self](hello_atom, std::uint64_t high, std::uint64_t low, bool stands, from_here) {
        reached(self, {high, low}, stands);
      },
      [self](stats_atom) -> caf::result<metrics::samples, links_report> {
        return {metrics::samples{}, self->state.report()};
      },
      [self](beat_atom, from_here) {
        if (!self->state.beat.due(self->clock().now()))
          return;
        if (self->state.go_back(self->clock().now()))
          follow_view(self);
        dial_whoever_is_missing(self);
        if (try_ports(self))
          self->state.beat.plan(self, self->state.options.retry / 2);
      },
  };
}

} // namespace peercache::link
