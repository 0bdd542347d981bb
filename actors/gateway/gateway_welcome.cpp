#include "actors/gateway/gateway_welcome.hpp"

#include "common/log.hpp"
#include "common/printable.hpp"
#include "common/unix_time.hpp"
#include "discovery/view_difference.hpp"
#include "link/command_caller.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace peercache::actors {
namespace {

/// An early client is refused after this many beats, about when it would ask again.
constexpr std::uint32_t early_beats_max = 2;

/// Opens a session for the client; nothing when this node has too many sessions.
std::optional<session_welcome> let_in(gateway_pointer self, const std::string& client_name,
                                      const session_listener& events) {
  auto& state = self->state;
  auto id = state.sessions.open(client_name, events, state.options.session_is_held);
  if (!id)
    return std::nullopt;
  state.sessions.find(*id)->opened_ms = unix_ms();
  self->monitor(events);
  session_welcome welcome;
  welcome.session = *id;
  welcome.lock_index = state.sessions.find(*id)->lock_index;
  welcome.pool_name = state.options.pool_name;
  welcome.member = discovery::encode_member(state.options.self);
  welcome.view = state.view;
  welcome.directory_replicas = state.options.directory_replicas;
  welcome.mirror = state.options.mirror;
  return welcome;
}

void look_after_early_clients(gateway_pointer self, std::uint32_t beats) {
  auto& state = self->state;
  for (auto& client : std::exchange(state.early, {})) {
    client.beats += beats;
    if (!state.options.caught_up() && client.beats < early_beats_max)
      state.early.push_back(std::move(client));
    else if (!state.options.caught_up())
      client.promise.deliver(refused("no member has told it yet which spaces were cleared"));
    else if (auto welcome = let_in(self, client.name, client.events))
      client.promise.deliver(std::move(*welcome));
    else
      client.promise.deliver(refused("too many sessions on this node"));
  }
}

/// Returns why a hello is refused, in words for the sender; no error when it is welcome. Version
/// and cluster have error codes of their own, by which other nodes tell a refusal from a failure.
/// The words do not name this node's cluster: whoever knows that name is let in.
caf::error refusal_of(std::uint32_t version, const std::string& cluster, const std::string& own) {
  if (version != wire_version)
    return caf::make_error(caf::sec::incompatible_versions,
                           "it speaks wire version " + std::to_string(wire_version) + " and not " +
                               std::to_string(version) +
                               "; install the same version of PeerCache on both sides");
  if (cluster != own)
    return caf::make_error(
        caf::sec::incompatible_application_ids,
        "it does not belong to cluster '" + peer_text(cluster) +
            "'; give its cluster.name, or the address of a node of that cluster");
  return {};
}

/// Notes which sender's hello is refused and why, for the operators of this node.
void note_refused(gateway_pointer self, std::uint32_t version, const std::string& cluster,
                  const std::string& who) {
  if (who == command_caller)
    return;
  const auto shown = [](const std::string& text) { return "'" + peer_text(text) + "'"; };
  const bool of_other_version = version != wire_version;
  self->state.refused.note(
      shown(who),
      of_other_version ? "it speaks wire version " + std::to_string(version) + " and not " +
                             std::to_string(wire_version)
                       : "its cluster.name is " + shown(cluster),
      of_other_version
          ? "install the same version of PeerCache on both sides"
          : "correct cluster.name there, or take this node's address out of what it asks",
      self->clock().now(), unix_ms());
}

/// Whether a client's name may be shown to operators as it is.
bool is_fit_name(const std::string& name) {
  return name.size() <= peer_text_bytes_max &&
         std::all_of(name.begin(), name.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

} // namespace

caf::result<peer_welcome> greet(gateway_pointer self, std::uint32_t version,
                                const std::string& cluster, const std::string& who) {
  const auto& own = self->state.options;
  if (auto refusal = refusal_of(version, cluster, own.cluster)) {
    note_refused(self, version, cluster, who);
    if (self->state.refusals.allows(who, self->clock().now()))
      log::warn("gateway: refused {}: wire version {}, cluster '{}'", peer_text(who), version,
                peer_text(cluster));
    return refusal;
  }
  peer_welcome welcome;
  welcome.member = discovery::encode_member(own.self);
  welcome.directory = own.door ? own.door : own.directory;
  welcome.membership = own.membership;
  welcome.lookup_port = own.lookup_port;
  return welcome;
}

caf::result<session_welcome> open_session(gateway_pointer self, const std::string& client_name,
                                          const session_listener& events) {
  auto& state = self->state;
  if (!is_fit_name(client_name))
    return refused("a client's name is at most 256 printable characters of ASCII");
  if (state.options.caught_up()) {
    auto welcome = let_in(self, client_name, events);
    if (!welcome)
      return refused("too many sessions on this node");
    return std::move(*welcome);
  }
  // A client that asks again gets its answer to the new request; its earlier request is refused.
  for (auto& each : state.early)
    if (each.events == events)
      each.promise.deliver(refused("it has asked again"));
  std::erase_if(state.early, [&](const auto& each) { return each.events == events; });
  if (state.early.size() >= session_table::sessions_max)
    return refused("too many clients wait for this node");
  gateway_state::early_client client;
  client.name = client_name;
  client.events = events;
  client.promise = self->make_response_promise<session_welcome>();
  state.early.push_back(client);
  state.beats.plan(self, state.beat);
  return client.promise;
}

void let_early_clients_in(gateway_pointer self) {
  look_after_early_clients(self, 0);
  self->state.tell_readiness();
}

void send_late_clients_away(gateway_pointer self) {
  look_after_early_clients(self, 1);
}

caf::result<clear_report> clear_for(gateway_pointer self, std::uint64_t space,
                                    std::uint32_t within_ms, const std::string& gone) {
  const auto& clearing = self->state.options.clearing;
  if (!clearing)
    return refused("this node clears nothing");
  return self->delegate(clearing, clear_atom_v, space, within_ms, gone, from_here{});
}

caf::result<std::string> hear_of_clears(gateway_pointer self, const std::string& known) {
  const auto& clearing = self->state.options.clearing;
  if (!clearing)
    return refused("this node clears nothing");
  return self->delegate(clearing, tell_atom_v, known, from_here{});
}

std::string change_log_level(const std::string& level) {
  const auto before = log_level();
  if (level != before && set_log_level(level)) {
    // The change is logged at the level "warn", which is set for this line, so that the line is
    // written even if the old or the new level would suppress it.
    set_log_level("warn");
    log::warn("gateway: the log level was {} and is {} from here on, as an operator wants", before,
              level);
    set_log_level(level);
  }
  return log_level();
}

bool is_insecure(const gateway_state& state) {
  if (state.options.insecure || state.options.tls)
    return state.options.insecure;
  if (const auto known = discovery::decode_view(state.view))
    return known->members.size() > 1;
  return false;
}

bool gateway_state::take_view(const discovery::view& next) {
  auto encoded = discovery::encode_view(next);
  if (encoded == view)
    return false;
  const auto before = discovery::decode_view(view);
  const auto difference = before ? discovery::difference_between(*before, next) : std::nullopt;
  change = difference ? discovery::encode_difference(*difference) : std::string{};
  change_base = difference ? discovery::encode_stamp(difference->base) : std::string{};
  view = std::move(encoded);
  return true;
}

} // namespace peercache::actors
