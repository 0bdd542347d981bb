#pragma once

#include "common/result.hpp"
#include "handoff/messages.hpp"
#include "net/tls_context.hpp"
#include "net/tls_handshakes.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace peercache::handoff {

struct link_options {
  std::string host = "127.0.0.1"; ///< Numeric address to listen on.
  std::uint16_t port = 0;         ///< 0: the kernel chooses.
  /// Allows a `host` beyond loopback although peers are not authenticated, as without TLS.
  bool insecure_cluster = false;
  std::shared_ptr<net::tls_context> tls; ///< Null: connections are plain.
  /// Does the TLS handshakes with peers that connect, in its own thread; outlives the links. Null
  /// when `tls` is null.
  net::tls_handshakes* handshakes = nullptr;
  /// Longest time from the begin of a connection to the other side's hello.
  std::chrono::milliseconds hello_timeout{2000};
  /// A peer to which no message was sent for this long is sent a beat.
  std::chrono::milliseconds beat_interval{500};
  /// A peer from which nothing has come for this long is lost; so is a peer that accepts no byte of
  /// the data sent to it for this long, by the kernel's clock.
  std::chrono::milliseconds silence_max{2000};
  /// Limit of connections that have said hello or that this worker has begun.
  std::size_t links_max = 4096;
  /// Limit of connections that peers have begun and that have not said hello, or that were refused
  /// and are not closed yet; a new connection displaces the oldest of these.
  std::size_t strangers_max = 64;
  /// Limit of bytes that wait to be sent to one peer.
  std::size_t queue_bytes_max = 2 * message_bytes_max;
  /// Limit of the bytes of events that one `poll` returns (`event_batch`); exceeded by one message,
  /// by hellos and by ends of connections.
  std::size_t events_bytes_max = 32u << 20;
};

/// Whether a worker may listen at `host`: asked before any of its ports is open. Errors: `refused`
/// when other hosts could connect, `under_tls` and `insecure_cluster` are off.
result<void> may_listen(const std::string& host, bool under_tls, bool insecure_cluster);

} // namespace peercache::handoff
