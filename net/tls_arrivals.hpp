#pragma once

#include "net/inbox.hpp"
#include "net/stream_socket.hpp"

#include <chrono>

namespace peercache::net {

/// A connection whose handshake of TLS is over.
struct tls_arrival {
  stream_socket socket;
  std::chrono::steady_clock::time_point came_at; ///< When the connection was accepted.
};

/// Connections whose handshake of TLS is over, on their way from the thread that shook hands to the
/// server of their port; those that arrive after the server's end are closed. Limits: those of
/// `tls_handshakes`.
using tls_arrivals = inbox<tls_arrival>;

} // namespace peercache::net
