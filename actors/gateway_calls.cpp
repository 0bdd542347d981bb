#include "actors/gateway_calls.hpp"

#include "common/log.hpp"

#include <utility>

namespace peercache::actors {

void take_report(gateway_pointer self, std::uint64_t id, metrics::samples& totals) {
  auto& sessions = self->state.sessions;
  auto* known = sessions.find(id);
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

caf::result<lost_report> lost_of_pool(gateway_pointer self, const std::string& prefixes) {
  return self->delegate(self->state.options.pool, lost_atom_v, prefixes, from_here{});
}

} // namespace peercache::actors
