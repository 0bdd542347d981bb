#pragma once

#include "net/socket.hpp"
#include "rdma/channel_options.hpp"
#include "rdma/tcp/tcp_protocol.hpp"
#include "rdma/verbs/verbs_protocol.hpp"

#include <chrono>
#include <cstdint>
#include <functional>

namespace peercache::rdma {

/// The reading side. Defaults were measured; see bench/README.md.
struct tcp_data_plane_options {
  channel_plane_options channels;
  /// A batch uses one channel for each so many bytes, at most `stripe_channels_max`.
  std::uint64_t stripe_bytes = 64u << 20;
  std::uint32_t stripe_channels_max = 4;
  std::uint32_t request_pages_max = rdma::request_pages_max;
  std::uint64_t request_bytes_max = 2u << 20; ///< Payload of a request of several pages.
  std::uint32_t requests_ahead_max = 4;       ///< Per channel, sent and not answered.
  /// Bytes of one readv: digested while they are in the L2 cache.
  std::uint32_t receive_piece_bytes = 256u << 10;
  net::socket_options socket;
};

/// Faults of the serving side, for tests only.
struct tcp_server_faults {
  /// Flips a byte of every n-th payload, after pinning. 0 never.
  std::uint32_t flip_byte_one_in = 0;
  std::size_t send_chunk_bytes = 0; ///< Bytes per send, then `between_chunks`; 0: no limit.
  std::function<void()> between_chunks;
  /// Closes a connection after so many bytes of answers. 0 never.
  std::uint64_t close_after_bytes = 0;
  bool mute_hello = false;   ///< Reads the hello and says nothing.
  bool mute_answers = false; ///< Answers the hello, then no request.
};

/// The serving side.
struct tcp_page_server_options {
  std::string host = "127.0.0.1"; ///< Numeric.
  std::uint16_t port = 0;         ///< 0: the kernel's choice, see `port()`.
  std::string cluster;
  incarnation inc;
  std::uint32_t connections_max = 4096;
  /// Limit over all connections; each pins one request at a time.
  std::uint64_t pinned_bytes_max = 256u << 20;
  std::chrono::milliseconds hello_timeout{2000};
  std::chrono::milliseconds send_timeout{2000}; ///< How long a reader may take no byte.
  std::chrono::milliseconds idle_timeout{300'000};
  net::socket_options socket;
  /// Takes over a connection that said a whole verbs hello, which nobody has judged yet; called in
  /// the server's thread. Without it such a hello is answered with `no_device`.
  std::function<void(net::unique_fd, const verbs_hello&)> on_verbs_hello;
  tcp_server_faults faults;
};

} // namespace peercache::rdma
