#include "actors/gateway/gateway_actor.hpp"

#include "actors/gateway/gateway_calls.hpp"
#include "actors/gateway/gateway_drain.hpp"
#include "actors/gateway/gateway_overlap.hpp"
#include "actors/gateway/gateway_pages.hpp"
#include "actors/gateway/gateway_status.hpp"
#include "actors/gateway/gateway_welcome.hpp"
#include "actors/link_names.hpp"
#include "common/assert.hpp"
#include "common/log.hpp"
#include "common/page_status.hpp"
#include "link/beats.hpp"
#include "link/protocol/disk_wire.hpp"

#include <chrono>

namespace peercache::actors {

using metrics::metric;

std::string gateway_state::unready_reason() const {
  if (leaving)
    return "draining";
  if (drained)
    return "drained: it owns no keys and takes no pages (peercache undrain)";
  if (!pool_fault.empty())
    return "pool: " + pool_fault;
  if (!outside.empty())
    return outside;
  if (!in_view)
    return "joining: no view with this node in it yet";
  if (!options.caught_up())
    return "joining: no member has told it yet which spaces were cleared" +
           (options.left_behind.empty()
                ? std::string{}
                : "; it was stopped while others went on, and waits for what they know, for a "
                  "quarter of a minute at most, before it gives its old pages up: " +
                      options.left_behind);
  const auto scanned = options.disk_scanned();
  return scanned < 1
             ? "disk tier: scanned " + std::to_string(static_cast<int>(scanned * 100)) + " %"
             : "";
}

caf::error refused(const std::string& why) {
  return caf::make_error(caf::sec::runtime_error, why);
}

namespace {

using namespace std::chrono_literals;

/// Requests to the pool have no time-out: it lives in this process and answers for as long as the
/// gateway does, and a timer for each request would cost more than the request. The pool's own
/// requests to other nodes have time-outs.
constexpr auto pool_timeout = caf::infinite;

constexpr const char* not_mapped = "the session's process has not mapped the pool";

/// Whether a process of this host has mapped the pool for this session and still has it mapped.
/// Without this check a stranger could open a session and publish slots that it never filled, with
/// bytes of earlier pages in them.
bool has_pool(gateway_state& state, session_table::session& session) {
  const bool held = state.options.session_is_held(session.lock_index);
  session.mapped |= held;
  return held;
}

/// Gives slots to the session. False when the session is closed by now: the slots go back to the
/// pool, because nobody will fill them.
bool grant(gateway_pointer self, std::uint64_t id, const std::string& slots) {
  if (auto* session = self->state.sessions.find(id)) {
    self->state.sessions.granted(*session, slots);
    return true;
  }
  if (!slots.empty())
    self->send(self->state.options.pool, abandon_atom_v, slots, from_here{});
  return false;
}

/// Takes from the session those slots of `filled` that the session really holds. Returns their
/// records, for the pool to publish.
std::string take_filled(session_table& sessions, session_table::session& session,
                        const std::string& filled) {
  std::string taken;
  auto count = record_count<filled_slot>(filled);
  for (std::size_t i = 0; count && i < *count; ++i)
    if (auto page = record_at<filled_slot>(filled, i); sessions.returned(session, page.slot))
      append_record(taken, page);
  return taken;
}

caf::result<std::string, std::string> commit_for(gateway_pointer self, std::uint64_t id,
                                                 const std::string& filled, std::uint8_t mode,
                                                 const std::string& next_lengths) {
  auto& state = self->state;
  auto* session = state.sessions.find(id);
  if (session == nullptr)
    return refused("no such session");
  // A commit may arrive when its client is gone; it counts if the client once had the pool mapped.
  const bool more = has_pool(state, *session) && state.takes_pages();
  if (!session->mapped)
    return refused(not_mapped);
  auto taken = take_filled(state.sessions, *session, filled);
  // The client committed a slot that it does not hold: none of the pages of this commit is
  // published.
  if (taken.size() != filled.size()) {
    std::string slots;
    for (std::size_t i = 0; i < taken.size() / sizeof(filled_slot); ++i)
      append_record(slots, record_at<filled_slot>(taken, i).slot);
    self->send(state.options.pool, abandon_atom_v, std::move(slots), from_here{});
    return refused("commit of slots that the session does not hold");
  }
  auto promise = self->make_response_promise<std::string, std::string>();
  const auto pages = taken.size() / sizeof(filled_slot);
  self->request(state.options.pool, pool_timeout, commit_atom_v, std::move(taken), mode,
                more ? next_lengths : std::string(), from_here{})
      .then(
          [self, id, promise, pages](std::string& statuses, std::string& slots) mutable {
            PEERCACHE_ASSERT(statuses.size() == pages); // Each page has one status.
            if (!grant(self, id, slots))
              slots.clear();
            promise.deliver(std::move(statuses), std::move(slots));
          },
          [promise](caf::error& why) mutable { promise.deliver(std::move(why)); });
  return promise;
}

caf::result<std::string> reserve_answer(gateway_pointer self, std::uint64_t id,
                                        const std::string& lengths) {
  if (!self->state.takes_pages())
    return refused("draining");
  auto* session = self->state.sessions.find(id);
  if (session == nullptr)
    return refused("no such session");
  if (!has_pool(self->state, *session))
    return refused(not_mapped);
  auto promise = self->make_response_promise<std::string>();
  self->request(self->state.options.pool, pool_timeout, reserve_atom_v, lengths, from_here{})
      .then(
          [self, id, promise](std::string& slots) mutable {
            if (grant(self, id, slots))
              promise.deliver(std::move(slots));
            else
              promise.deliver(refused("no such session"));
          },
          [promise](caf::error& why) mutable { promise.deliver(std::move(why)); });
  return promise;
}

void abandon_for(gateway_pointer self, std::uint64_t id, const std::string& slots) {
  auto& sessions = self->state.sessions;
  auto* session = sessions.find(id);
  auto count = record_count<slot_id>(slots);
  std::string taken;
  for (std::size_t i = 0; session && count && i < *count; ++i)
    if (auto slot = record_at<slot_id>(slots, i); sessions.returned(*session, slot))
      append_record(taken, slot);
  if (!taken.empty())
    self->send(self->state.options.pool, abandon_atom_v, std::move(taken), from_here{});
}

void close_session(gateway_pointer self, std::uint64_t id) {
  self->state.calls.end(id, self->clock().now());
  drop_gpu_report(self->state, id);
  if (auto slots = self->state.sessions.close(id); !slots.empty())
    self->send(self->state.options.pool, abandon_atom_v, std::move(slots), from_here{});
}

void client_leaves(gateway_pointer self, std::uint64_t id) {
  note_unmapped(self, id);
  close_session(self, id);
}

/// Frees the slots of silent sessions whose process is dead, which the kernel tells. A lost
/// connection does not prove that: the process may only sleep.
void bury_dead_sessions(gateway_pointer self) {
  auto& state = self->state;
  for (auto id : state.sessions.silent()) {
    auto* silent = state.sessions.find(id);
    PEERCACHE_ASSERT(silent != nullptr && silent->silent);
    if (!state.options.session_is_dead(silent->lock_index))
      continue;
    log::info("gateway: client {} is gone, {} slots come back", silent->client_name,
              silent->slots.size());
    close_session(self, id);
  }
}

void on_topology(gateway_pointer self, const topology_ptr& next) {
  PEERCACHE_ASSERT(next);
  auto& state = self->state;
  state.in_view = next->find(state.options.self.inc) != nullptr;
  state.tell_readiness();
  if (!state.take_view(next->view))
    return;
  // Each session was told the view before: by its welcome, or here.
  const auto& told = state.view_for(state.change_base);
  for (const auto& [id, known] : state.sessions.all())
    if (!known.silent)
      self->send(known.events, view_atom_v, told);
}

void look_at_pool(gateway_state& state) {
  auto fault = state.options.pool_fault();
  if (!fault.empty() && fault != state.pool_fault)
    log::error("pool: {}", fault);
  state.pool_fault = std::move(fault);
}

/// Notes why the node is out of the cluster's view; empty: it is in.
void went_outside(gateway_state& state, const std::string& why) {
  state.outside = why;
  state.tell_readiness();
}

caf::result<bool> forget_member(gateway_pointer self, const std::string& name) {
  return self->delegate(self->state.options.membership, forget_atom_v, name, from_here{});
}

void plan_beat(gateway_pointer self) {
  auto& state = self->state;
  state.beats.plan(self, state.hurries() ? state.beat : link::rest_period);
}

void on_beat(gateway_pointer self) {
  if (!self->state.beats.due(self->clock().now()))
    return;
  look_at_pool(self->state);
  bury_dead_sessions(self);
  send_late_clients_away(self);
  self->state.tell_readiness();
  plan_beat(self);
}

/// What the gateway does before its first message.
void begin(gateway_pointer self, gateway_options options) {
  self->state.options = std::move(options);
  PEERCACHE_ASSERT(self->state.options.pool && self->state.options.ready);
  self->state.started = self->clock().now();
  self->set_default_handler(caf::drop); // A published actor does not answer unknown messages.
  self->set_down_handler([self](const caf::down_msg& down) {
    for (const auto id : self->state.sessions.went_silent(down.source))
      drop_gpu_report(self->state, id);
    plan_beat(self);
  });
  plan_beat(self);
}

} // namespace

gateway_actor::behavior_type run_gateway(gateway_pointer self, gateway_options options) {
  begin(self, std::move(options));
  return {
      [self](hello_atom, std::uint32_t version, const std::string& cluster,
             const std::string& who) { return greet(self, version, cluster, who); },
      [self](session_atom, const std::string& client_name, const session_listener& events) {
        return open_session(self, client_name, events);
      },
      [self](reserve_atom, std::uint64_t id, const std::string& lengths) {
        return reserve_answer(self, id, lengths);
      },
      [self](commit_atom, std::uint64_t id, const std::string& filled, std::uint8_t mode,
             const std::string& next_lengths) {
        return commit_for(self, id, filled, mode, next_lengths);
      },
      [self](leave_atom, std::uint64_t id) { client_leaves(self, id); },
      [self](abandon_atom, std::uint64_t id, const std::string& slots) {
        abandon_for(self, id, slots);
      },
      [self](report_atom, std::uint64_t id, metrics::samples& all) { take_report(self, id, all); },
      [self](calls_atom, std::uint64_t id, call_report& calls) { take_calls(self, id, calls); },
      [self](gpu_atom, std::uint64_t id, std::string& told) { return take_gpu(self, id, told); },
      [self](used_atom, std::string& pages, from_here) { return tell_pool(self, pages); },
      [self](hold_atom, const std::string& pages, std::uint32_t who, std::uint32_t for_ms,
             from_here) { return hold_for(self, pages, who, for_ms); },
      [self](remove_atom, const std::string& keys, from_here) { return remove_for(self, keys); },
      [self](promote_atom, const std::string& pages, std::uint32_t within_ms, from_here) {
        return promote_for(self, pages, within_ms);
      },
      [self](warm_atom, std::string& pages, from_here) { return warm(self, pages); },
      [self](verify_atom) { return verify_disk(self); },
      [self](evict_atom, std::uint64_t bytes) { return evict_disk(self, bytes); },
      [self](status_atom) { return report_of_node(self); },
      [self](history_atom, std::uint64_t after_point, std::uint64_t after_event) {
        return self->state.options.history(after_point, after_event);
      },
      [self](list_atom) { return list_sessions(self); },
      [self](calls_atom) { return calls_of_clients(self); },
      [self](lost_atom, const std::string& prefixes) { return lost_here(self, prefixes); },
      [self](census_atom) { return census_of_pool(self); },
      [](log_atom, const std::string& level) { return change_log_level(level); },
      [self](view_atom) { return self->state.view; },
      [self](view_atom, const std::string& known) { return self->state.view_for(known); },
      [self](clear_atom, std::uint64_t space, std::uint32_t within_ms, const std::string& gone) {
        return clear_for(self, space, within_ms, gone);
      },
      [self](locate_atom, std::string& query) { return overlap_for(self, query); },
      [self](gpu_atom, std::string& asked) { return gpu_run_for(self, asked); },
      [self](tell_atom, const std::string& known) { return hear_of_clears(self, known); },
      [self](tell_atom, from_here) { let_early_clients_in(self); },
      [self](forget_atom, const std::string& name) { return forget_member(self, name); },
      [self](drain_atom) { return leave(self); },
      [self](drain_atom, bool drained) { return set_drained(self, drained); },
      [self](outside_atom, const std::string& why, from_here) { went_outside(self->state, why); },
      [self](topology_atom, const topology_ptr& next) { on_topology(self, next); },
      [self](beat_atom, from_here) { on_beat(self); },
  };
}

} // namespace peercache::actors
