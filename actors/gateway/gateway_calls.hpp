#pragma once

#include "actors/gateway/gateway_actor.hpp"

#include <cstdint>
#include <string>

// Takes the totals and the recent calls that clients report of themselves, and answers questions
// about clients and about pages that left the node.
namespace peercache::actors {

void take_report(gateway_pointer self, std::uint64_t id, metrics::samples& totals);

void take_calls(gateway_pointer self, std::uint64_t id, call_report& calls);
calls_report calls_of_clients(gateway_pointer self);
/// Asks the pool how these pages left it, and the shard which of them it has forgotten because
/// their holders are gone.
caf::result<lost_report> lost_here(gateway_pointer self, const std::string& prefixes);
caf::result<page_census> census_of_pool(gateway_pointer self);

/// Call when a client closes its session: notes a client that has never mapped the pool and never
/// reported its numbers.
void note_unmapped(gateway_pointer self, std::uint64_t id);
sessions_report list_sessions(gateway_pointer self);

} // namespace peercache::actors
