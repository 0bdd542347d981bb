#include "actors/gateway/gateway_calls.hpp"

#include "common/log.hpp"
#include "common/printable.hpp"
#include "common/unix_time.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace peercache::actors {

void take_report(gateway_pointer self, std::uint64_t id, metrics::samples& totals) {
  auto& sessions = self->state.sessions;
  auto* known = sessions.find(id);
  if (known != nullptr)
    known->told = true;
  if (known != nullptr && !sessions.report(*known, std::move(totals)))
    log::warn("gateway: the numbers of client {} are left out: there are too many of all clients",
              known->client_name);
}

void take_calls(gateway_pointer self, std::uint64_t id, call_report& calls) {
  auto& state = self->state;
  const auto* known = state.sessions.find(id);
  const auto now = self->clock().now();
  if (known != nullptr && !state.calls.take(id, known->client_name, std::move(calls), now) &&
      state.refusals.allows("calls of " + known->client_name, now))
    log::warn("gateway: the calls of client {} are left out: they are too many",
              peer_text(known->client_name));
}

calls_report calls_of_clients(gateway_pointer self) {
  return self->state.calls.all(self->clock().now());
}

namespace {

/// Longest wait for an answer of another actor of this node.
constexpr std::chrono::seconds patience{1};

/// How long a client may take to map the pool before `peercache sessions` shows that it has not.
constexpr std::chrono::milliseconds time_to_map{1000};

constexpr const char* unmapped_words = "it cannot map the pool, so it stores nothing and reads "
                                       "this host's pages by a socket: it needs "
                                       "the host's /dev/shm, and the node's user or node.group";

/// Why the client of a session is slower than it could be, in words; empty: it is not.
std::string slow_path_of(const gateway_state& state, std::uint64_t id,
                         const session_table::session& session) {
  const auto age = unix_ms() - std::min(unix_ms(), session.opened_ms);
  if (!session.silent && age > static_cast<std::uint64_t>(time_to_map.count()) &&
      !state.options.session_is_held(session.lock_index))
    return unmapped_words;
  const auto plane = state.calls.data_plane_of(id);
  if (plane.starts_with("tcp") && state.options.data_plane.starts_with("verbs"))
    return "it reads pages of other hosts by TCP, though this node has RDMA: " + plane;
  return {};
}

} // namespace

caf::result<lost_report> lost_here(gateway_pointer self, const std::string& prefixes) {
  const auto& options = self->state.options;
  if (!options.directory)
    return self->delegate(options.pool, lost_atom_v, prefixes, from_here{});
  auto promise = self->make_response_promise<lost_report>();
  self->request(options.pool, patience, lost_atom_v, prefixes, from_here{})
      .then(
          [self, promise, prefixes](lost_report& of_pool) mutable {
            self->request(self->state.options.directory, patience, lost_atom_v, prefixes,
                          from_here{})
                .then(
                    [promise, all = of_pool](const lost_report& of_shard) mutable {
                      all.pages.insert(all.pages.end(), of_shard.pages.begin(),
                                       of_shard.pages.end());
                      promise.deliver(std::move(all));
                    },
                    [promise, all = of_pool](const caf::error&) mutable {
                      promise.deliver(std::move(all));
                    });
          },
          [promise](caf::error& why) mutable { promise.deliver(std::move(why)); });
  return promise;
}

caf::result<page_census> census_of_pool(gateway_pointer self) {
  return self->delegate(self->state.options.pool, census_atom_v, from_here{});
}

void note_unmapped(gateway_pointer self, std::uint64_t id) {
  auto& state = self->state;
  const auto* known = state.sessions.find(id);
  if (known != nullptr && !known->mapped && !known->told &&
      !state.options.session_is_held(known->lock_index))
    state.unmapped.note(known->client_name, self->clock().now());
}

sessions_report list_sessions(gateway_pointer self) {
  const auto& state = self->state;
  auto said = state.sessions.list();
  std::size_t i = 0;
  for (const auto& [id, known] : state.sessions.all()) {
    auto& row = said.rows.at(i++);
    row.slow_path = slow_path_of(state, id, known);
    row.spaces = state.calls.spaces_of(id);
  }
  for (const auto& name : state.unmapped.names(self->clock().now())) {
    auto& row = said.rows.emplace_back();
    row.client = name;
    row.opened_ms = unix_ms();
    row.slow_path = unmapped_words;
  }
  return said;
}

} // namespace peercache::actors
