#include "actors/membership/join_check.hpp"

#include "common/limits.hpp"
#include "common/log.hpp"
#include "common/printable.hpp"
#include "discovery/packet_codec.hpp"
#include "discovery/view_codec.hpp"
#include "link/connector_actor.hpp"

#include <chrono>
#include <string>
#include <utility>

namespace peercache::actors {
namespace {

using namespace std::chrono_literals;

/// How long a sender counts as reached (`reached_for`) or as unreachable (`unreached_for`) after a
/// search for it has ended.
constexpr auto reached_for = 10s;
constexpr auto unreached_for = 2s;
/// How long a sender whose connection stands may take for its hello. Joins of other senders do not
/// wait for it.
constexpr auto hello_timeout = 5s;
/// Most senders that are looked for at the same time. Joins of further senders are dropped; their
/// senders repeat them.
constexpr std::size_t searches_max = 64;
/// Most senders that are remembered: more than a cluster has members, so that many may join at
/// once.
constexpr std::size_t callers_max = std::size_t{2} * limits::members_max;

using membership_pointer = membership_actor::stateful_pointer<membership_state>;
using caller = membership_state::caller;

std::string address_text(const discovery::member& who) {
  return who.host + ":" + std::to_string(who.control_port);
}

/// Tells the operators of both nodes why a caller stays outside. A node that is in no view itself
/// tells the caller nothing: a refusal means that a cluster exists, so that its receiver founds
/// none.
void turn_away(membership_pointer self, const caller& whom) {
  auto& state = self->state;
  const auto& who = whom.join.who;
  if (state.refusals.allows(address_text(who), self->clock().now()))
    log::warn("membership: '{}' is not taken in: {}", peer_text(who.name), whom.fault);
  if (whom.sender && state.machine->state() == discovery::membership::phase::joined)
    self->send(whom.sender, packet_atom_v,
               discovery::encode_packet(
                   discovery::refused_packet{discovery::refusal::out_of_reach, whom.fault},
                   state.options.cluster));
}

/// Ends the search for a caller. @param fault why it was not reached; empty when it was
void end_search(membership_pointer self, const incarnation& inc, std::string fault,
                const join_handler& pass_on) {
  const auto found = self->state.callers.find(inc);
  if (found == self->state.callers.end() || !found->second.asking)
    return;
  auto& whom = found->second;
  whom.asking = false;
  --self->state.searches;
  whom.fault = std::move(fault);
  whom.until = self->clock().now() + (whom.fault.empty() ? reached_for : unreached_for);
  if (whom.fault.empty())
    return pass_on(whom.join);
  self->state.turn_away(whom.join.who, whom.fault, "", self->clock().now());
  turn_away(self, whom);
}

void search_for(membership_pointer self, const discovery::member& who,
                const join_handler& pass_on) {
  ++self->state.searches;
  const auto where = "the address that it advertises, " + address_text(who);
  const auto failed = [self, inc = who.inc, where, pass_on](const caf::error& why) {
    const auto tls_fault = link::tls_fault_of(why);
    end_search(self, inc,
               tls_fault.empty()
                   ? "nobody answers at " + where + ": check its net.advertise and the firewalls"
                   : "whoever is at " + where + ", is not let in: " + tls_fault,
               pass_on);
  };
  const auto greeted = [self, inc = who.inc, where, pass_on](const peer_welcome& welcome) {
    const auto said = discovery::decode_member(welcome.member);
    end_search(self, inc,
               said && said->inc == inc
                   ? std::string{}
                   : "another process answers at " + where + ": check its net.advertise",
               pass_on);
  };
  self->request(self->state.options.connector, 30s, dial_atom_v, who.host, who.control_port,
                who.name, from_here{})
      .then(
          [self, greeted, failed](const gateway_actor& gateway) {
            const auto& own = self->state.options;
            self->request(gateway, hello_timeout, hello_atom_v, wire_version, own.cluster,
                          own.self.name)
                .then(greeted, failed);
          },
          failed);
}

bool at_same_address(const discovery::member& a, const discovery::member& b) {
  return control_endpoint(a) == control_endpoint(b);
}

/// Forgets the outcomes that are too old, and that of an incarnation which names another address
/// now.
void forget_callers(membership_state& state, const discovery::member& who,
                    caf::actor_clock::time_point now) {
  std::erase_if(state.callers, [&](const auto& entry) {
    const auto& [inc, each] = entry;
    const bool moved = inc == who.inc && !at_same_address(each.join.who, who);
    return !each.asking && (each.until <= now || moved);
  });
}

} // namespace

void check_join(membership_pointer self, const discovery::join_packet& join,
                const join_handler& pass_on) {
  auto& state = self->state;
  const auto& who = join.who;
  const auto* known = state.machine->newest().find(who.inc);
  if (who.inc == state.options.self.inc || (known != nullptr && at_same_address(*known, who)))
    return pass_on(join);
  forget_callers(state, who, self->clock().now());
  if (!state.callers.contains(who.inc) &&
      (state.searches >= searches_max || state.callers.size() >= callers_max))
    return;
  const auto [at, is_new] = state.callers.try_emplace(who.inc);
  auto& whom = at->second;
  if (!is_new && !at_same_address(whom.join.who, who))
    return; // Two addresses claim this incarnation: the first one is being looked for.
  whom.join = join;
  // A node that passes a join on is not its sender. The sender sends the same join to this node as
  // well, and can be told then.
  whom.sender = join.forwarded ? membership_actor{}
                               : caf::actor_cast<membership_actor>(self->current_sender());
  if (is_new)
    search_for(self, who, pass_on);
  else if (!whom.asking && whom.fault.empty())
    pass_on(join);
  else if (!whom.asking)
    turn_away(self, whom);
}

} // namespace peercache::actors
