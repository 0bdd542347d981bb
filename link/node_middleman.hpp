#pragma once

#include "common/result.hpp"
#include "net/host_socket.hpp"
#include "net/socket.hpp"
#include "net/tls_handshakes.hpp"
#include "net/tls_session.hpp"

#include <caf/actor_system.hpp>
#include <caf/io/doorman.hpp>
#include <caf/io/scribe.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace peercache::link {

/// CAF's middleman without five faults of CAF 0.17, by which peers could exhaust or end a process:
///
/// - A server that lost a connection kept an actor and an entry for that peer for ever (1.3 KiB a
///   control connection). This broker forgets both with the peer.
/// - A process out of descriptors could not accept, and asked the kernel again and again (a third
///   of a core). This listening socket holds one descriptor in reserve, to accept and turn away.
/// - A peer that announced 4 GiB was given room for them at once. A connection of this middleman
///   ends when its peer announces more than any message of ours has: 64 KiB in the greeting, 64 MiB
///   later.
/// - A connection that said nothing was kept for ever. Here it ends after 2 s without a header.
/// - A peer could end actors of others, and by a message of a few bytes the process. Here its
///   connection ends before CAF has read such a message (link/basp_guard.hpp).
///
/// If the system has TLS (system_config), a broker hears only of accepted connections whose
/// handshake is over: `net::tls_handshakes` has a thread for strangers.
///
/// Threads: CAF's, and that of the handshakes. Limits: 16,384 connections of a broker. Ownership:
/// the caller hands the module to the actor system, which owns it.
caf::actor_system::module* make_node_middleman(caf::actor_system& system);

/// Makes the object by which a broker of this system uses a dialled connection. @param tls an
/// established session; none: the connection is plain @pre the system's configuration is a
/// system_config
caf::io::scribe_ptr new_scribe(caf::actor_system& system, net::unique_fd connected,
                               std::optional<net::tls_session> tls);

/// Opens a port at which a broker of this system listens. @param host numeric @param port 0: any
/// free one @param members the peers that TLS lets in, if the system has it. Errors: CAF's @pre the
/// system's configuration is a system_config
caf::expected<caf::io::doorman_ptr> new_doorman(caf::actor_system& system, const std::string& host,
                                                std::uint16_t port, net::tls_peers members);

/// Makes a doorman for a Unix socket, at which a broker of this system listens. Connections are
/// plain: the kernel tells the user at the other end, and all but `users` are turned away, with one
/// log line per minute for each user.
/// @param listening the socket, which this object closes
/// @param port the port whose actor is found at the socket as well
/// @pre the system's configuration is a system_config
caf::io::doorman_ptr new_host_doorman(caf::actor_system& system, net::unique_fd listening,
                                      std::uint16_t port, net::host_users users);

/// The object that does the TLS handshakes of strangers before a port of this system hears of them;
/// null when the system has no TLS. Ports outside of CAF may use it, too. It lives as long as the
/// system, whose end ends its thread. Errors: it cannot be made. @pre the system's configuration is
/// a system_config
result<net::tls_handshakes*> handshakes_of(caf::actor_system& system);

} // namespace peercache::link
