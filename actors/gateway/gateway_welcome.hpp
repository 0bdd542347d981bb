#pragma once

#include "actors/gateway/gateway_actor.hpp"

#include <cstdint>
#include <string>

// Greets, lets clients in and passes on messages about cleared spaces: no client reads this host's
// pool before its node knows the clears that it missed while it was away.
namespace peercache::actors {

/// Answers the hello of a node or a client. Refused when version or cluster differ.
caf::result<peer_welcome> greet(gateway_pointer self, std::uint32_t version,
                                const std::string& cluster, const std::string& who);

/// Opens a session. The answer comes when the node has caught up, or is a refusal in about a
/// second.
caf::result<session_welcome> open_session(gateway_pointer self, const std::string& client_name,
                                          const session_listener& events);

/// Opens the sessions of waiting clients if the node has caught up. Call when that may be so.
void let_early_clients_in(gateway_pointer self);
/// Refuses clients that have waited too long, so that they ask again. Call with each beat.
void send_late_clients_away(gateway_pointer self);

caf::result<clear_report> clear_for(gateway_pointer self, std::uint64_t space,
                                    std::uint32_t within_ms, const std::string& gone);
caf::result<std::string> hear_of_clears(gateway_pointer self, const std::string& known);

/// Sets the log level of this process, whatever the configuration says, until the process ends; an
/// empty `level` changes nothing. Returns the level in force.
std::string change_log_level(const std::string& level);

/// Whether others than this node's user can reach pages at a port without TLS. In a cluster of
/// several nodes on loopback, all users of the host can.
bool is_insecure(const gateway_state& state);

} // namespace peercache::actors
