#pragma once

#include "net/socket.hpp"
#include "net/stream_socket.hpp"
#include "net/tls_handshakes.hpp"
#include "rdma/channel_options.hpp"
#include "rdma/device_memory.hpp"
#include "rdma/tcp/tcp_protocol.hpp"
#include "rdma/verbs/verbs_protocol.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

namespace peercache::rdma {

/// Options of the reading side over TCP. Defaults were measured; see bench/README.md.
struct tcp_data_plane_options {
  channel_plane_options channels;
  /// A batch uses one channel for each `stripe_bytes` of its length, at most `stripe_channels_max`.
  std::uint64_t stripe_bytes = 64u << 20;
  std::uint32_t stripe_channels_max = 4;
  std::uint32_t request_pages_max = rdma::request_pages_max;
  /// Payload of a request that asks for several pages, at most.
  std::uint64_t request_bytes_max = 2u << 20;
  /// Requests of a channel that are sent and not answered, at most.
  std::uint32_t requests_ahead_max = 4;
  /// Knows the device memory, into which bytes are received by way of host memory; outlives the
  /// data plane. Null: all memory is host memory.
  device_memory* device = nullptr;
  /// Bytes of one readv, at most: so few that they are digested while they are in the L2 cache, and
  /// that little of a page is left to digest when its last byte has arrived.
  std::uint32_t receive_piece_bytes = 64u << 10;
  net::socket_options socket;
  std::shared_ptr<net::tls_context> tls; ///< Null: connections are plain.
  /// Whether this side wants payloads inside TLS; they are inside it when either side wants that.
  bool pages_in_tls = false;
};

/// Faults that tests make a page server have; no product sets one.
struct tcp_server_faults {
  /// Flips a byte of every n-th payload after its page was pinned; 0 means never.
  std::uint32_t flip_byte_one_in = 0;
  /// How many bytes the server sends at a time, with a call of `between_chunks` after each send; 0:
  /// no limit.
  std::size_t send_chunk_bytes = 0;
  std::function<void()> between_chunks;
  /// After how many bytes of answers the server closes a connection; 0 means never.
  std::uint64_t close_after_bytes = 0;
  bool mute_hello = false;   ///< The server reads the hello and never answers it.
  bool mute_answers = false; ///< The server answers the hello, but no request.
};

/// Options of a page server over TCP.
struct tcp_page_server_options {
  std::string host = "127.0.0.1"; ///< Address to listen on, numeric.
  std::uint16_t port = 0; ///< Port to listen on; 0: the kernel chooses one, which `port()` tells.
  std::string cluster;
  incarnation inc;
  /// Knows the device memory, whose bytes are sent by way of host memory; outlives the server.
  /// Null: all memory is host memory.
  device_memory* device = nullptr;
  std::uint32_t connections_max = 4096;
  /// Limit of the bytes pinned over all connections; each connection pins the pages of one request
  /// at a time. Peers share these bytes (tcp_pin_room.hpp).
  std::uint64_t pinned_bytes_max = 256u << 20;
  std::chrono::milliseconds hello_timeout{2000};
  /// How long a reader may take its answer at less than `send_rate_min` before its connection ends.
  std::chrono::milliseconds send_timeout{2000};
  /// The rate, in bytes per second, below which a reader counts as slow.
  std::uint64_t send_rate_min = 1u << 20;
  /// How long a reader may be slower than `send_rate_min` while other readers wait for room among
  /// the pinned bytes, before it may be ended; readers of the peer that pins most are ended first.
  std::chrono::milliseconds send_timeout_of_full{500};
  std::chrono::milliseconds idle_timeout{300'000};
  net::socket_options socket;
  /// Does the TLS handshakes with peers that connect, in its own thread; outlives the server. Null:
  /// connections are plain.
  net::tls_handshakes* handshakes = nullptr;
  /// Whether this side wants payloads inside TLS; they are inside it when either side wants that.
  bool pages_in_tls = false;
  /// Takes over a connection on which a whole verbs hello has come, which is not judged yet, with
  /// the time when the connection was accepted. Called in the server's thread. When empty, the
  /// server answers such a hello with `no_device`.
  std::function<void(net::stream_socket, const verbs_hello&,
                     std::chrono::steady_clock::time_point came_at)>
      on_verbs_hello;
  tcp_server_faults faults;
};

/// What one side of a connection wants to be inside TLS.
inline tls_extent wanted_extent(bool under_tls, bool pages_in_tls) noexcept {
  if (!under_tls)
    return tls_extent::none;
  return pages_in_tls ? tls_extent::full : tls_extent::handshake;
}

} // namespace peercache::rdma
