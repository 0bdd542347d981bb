#pragma once

#include "net/stream_socket.hpp"
#include "rdma/data_plane.hpp"
#include "rdma/tcp/tcp_answer.hpp"

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace peercache::rdma {

/// One connection of a page server: hello, then one request after the other. While an answer is
/// being sent, further requests stay in the socket. A connection that says a verbs hello instead is
/// given away as soon as the hello is whole; bytes behind the hello stay in the socket.
/// Threads: none; the server's owner serializes. Ownership: pins of the pages of the answer being
/// sent, until their bytes are in the socket or the session ends. Memory: before an accepted hello
/// nothing but this object; then 16 KiB for requests. Errors: a fault of the peer ends this session
/// and nothing else.
class tcp_server_session {
public:
  enum class progress : std::uint8_t {
    blocked,
    moved, ///< Something moved, and there may be more to do.
    /// Too many bytes are pinned for the next request: the owner steps the session again when pins
    /// were released.
    wants_pin_room,
    given_away, ///< The peer said a verbs hello: the owner takes `socket` and `verbs_greeting`.
    ended
  };

  /// @param socket plain, or with its TLS handshake done
  /// @param came_at when the connection was accepted
  tcp_server_session(tcp_server_state& shared, net::stream_socket socket, clock::time_point came_at,
                     clock::time_point now);
  tcp_server_session(const tcp_server_session&) = delete;
  tcp_server_session& operator=(const tcp_server_session&) = delete;
  ~tcp_server_session() { shared_.pins.forget(this); }

  void on_events(std::uint32_t events) noexcept;
  progress step(clock::time_point now, std::size_t bytes_max);

  /// Whether the session has to end: it said no hello, was idle, or took its answer too slowly, for
  /// longer than its time-out.
  bool overdue(clock::time_point now) noexcept;
  /// When the session is overdue, unless something moves; none while it sends an answer.
  std::optional<clock::time_point> ends_at() const noexcept;
  /// For how long the reader has been taking its answer at less than `send_rate_min`, as far as the
  /// calls of this function can tell; zero when no answer is being sent.
  clock::duration slow_for(clock::time_point now) noexcept;
  std::uint64_t pinned_bytes() const noexcept { return answer_.pinned_bytes(); }
  /// The address of the host that reads.
  const std::string& peer() const noexcept { return peer_; }

  /// The socket of a session that said a verbs hello. @pre `step` returned `given_away`
  net::stream_socket take_socket() noexcept { return std::move(socket_); }
  verbs_hello verbs_greeting() const noexcept;
  clock::time_point came_at() const noexcept { return came_at_; }

private:
  enum class phase : std::uint8_t { greeting, serving, refusing, given_away };

  static constexpr std::size_t in_bytes_max = 16u << 10;
  static_assert(in_bytes_max >= request_frame_bytes_max);

  bool receive();
  bool take_hello();
  std::size_t hello_bytes() const noexcept;
  void answer_hello();
  void answer_verbs_hello();
  /// Starts the answer to the oldest whole request in the buffer, if there is one. Returns false
  /// for a frame that breaks the protocol.
  bool take_request();
  bool send(std::size_t& budget);
  ssize_t send_some(std::size_t bytes_max);

  tcp_server_state& shared_;
  phase phase_ = phase::greeting;
  bool readable_ = false;
  bool writable_ = false;
  bool hung_up_ = false;
  /// The peer has closed its side of the connection, and sends nothing further.
  bool ended_ = false;
  const clock::time_point came_at_;
  clock::time_point moved_at_;
  const std::string peer_;
  /// Time since which the reader takes its answer at less than `send_rate_min`.
  clock::time_point slow_since_;
  std::uint64_t slow_from_ = 0; ///< Value of `answer_bytes_sent_` at `slow_since_`.

  /// The bytes of the hello, which is one of TCP or of verbs.
  std::array<std::byte, sizeof(verbs_hello)> hello_;
  /// Buffer of requests; allocated when the hello was accepted.
  std::unique_ptr<std::array<std::byte, in_bytes_max>> in_;
  std::size_t in_begin_ = 0; ///< Index of the first byte of `in_` that is not consumed.
  /// Index behind the last received byte: in `hello_` before the hello is whole, then in `in_`.
  std::size_t in_end_ = 0;
  bool out_of_pin_room_ = false;

  std::uint64_t answer_bytes_sent_ = 0;
  tcp_answer answer_;
  /// What is inside TLS: what the server wants before the hello, and what both sides agreed on
  /// after it.
  tls_extent extent_;
  net::stream_socket socket_; ///< Closed before the answer's pins are released.
};
static_assert(sizeof(tcp_server_session) < 64u << 10, "a connection without a hello costs as much");

} // namespace peercache::rdma
