#pragma once

#include "link/protocol/gateway.hpp"
#include "link/socket_watch.hpp"
#include "net/host_socket.hpp"
#include "net/socket.hpp"
#include "net/tls_context.hpp"

#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>

namespace peercache::link {

/// First words of an error when a peer was connected but the handshake of TLS failed.
inline constexpr const char* no_tls_with_it = "no TLS with it: ";

/// Returns why TLS made a dial fail, in words; empty when the dial failed for another reason.
std::string tls_fault_of(const caf::error& why);

/// The state of an actor that dials all addresses at once, so that an address out of reach delays
/// no other, and shakes hands if the actor system has TLS. CAF's own connect would block the one
/// middleman actor for as long as the kernel's connect takes. Takes numeric addresses only: names
/// are resolved where they are configured. Never blocks: a thread waits for the sockets
/// (link/socket_watch.hpp). Not detached: CAF's broker keeps a reference to every actor that waits
/// for the greeting of a silent peer, and a detached actor that is referred to keeps its actor
/// system from ending. End it by an exit message: the thread's messages refer to it. Bound: each
/// caller has one open dial per address.
struct connector_state {
  connector_state() = default;

  /// A connection that is being made.
  struct dial {
    dial() = default;
    net::unique_fd socket;
    /// TLS of the connection; none until the socket is connected, or without TLS.
    std::optional<net::tls_session> tls;
    std::uint16_t port = 0;
    std::string name;     ///< Name of the node that is meant; empty: any.
    bool watched = false; ///< The watch has the socket.
    bool on_host = false; ///< Whether this is a Unix socket, which is never under TLS.
    std::chrono::steady_clock::time_point until;
    caf::typed_response_promise<gateway_actor> promise;
  };
  /// A connection that is made only to see whether the port can be reached.
  struct trial {
    trial() = default;
    net::unique_fd socket;
    bool watched = false; ///< The watch has the socket.
    std::chrono::steady_clock::time_point until;
    caf::typed_response_promise<std::string> promise;
  };

  std::chrono::milliseconds timeout{300};
  /// Where a node of this host is looked for first; none: all are reached by their control ports.
  std::optional<net::host_sockets> sockets;
  std::shared_ptr<net::tls_context> tls; ///< TLS of the connections; null: they are plain.
  std::list<dial> dials;
  std::list<trial> trials;
  /// Waits for the sockets of dials and trials. Null until a socket has to be waited for: a connect
  /// on this host is over at once.
  std::unique_ptr<socket_watch> watch;
  /// When this actor looks again at sockets that the watch does not have.
  std::chrono::steady_clock::time_point look_at{};
  static inline const char* name = "connector";
};

/// @param sockets Unix sockets of nodes on this host, tried before a node's control port, which
/// under TLS lets no clients in; none: all nodes are reached by their ports
connector_actor::behavior_type
run_connector(connector_actor::stateful_pointer<connector_state> self,
              std::chrono::milliseconds timeout, std::optional<net::host_sockets> sockets);

} // namespace peercache::link
