#pragma once

#include "net/socket.hpp"
#include "net/tls_context.hpp"

#include <cstddef>
#include <memory>
#include <optional>
#include <poll.h>
#include <span>
#include <string>
#include <sys/types.h>
#include <sys/uio.h>

namespace peercache::net {

/// One non-blocking TCP connection, plain or under TLS. Under TLS its owner may send and receive
/// bytes past TLS (`send_past_tls`, `receive_past_tls`) at places of the stream that both sides
/// know: TLS reads no byte behind the record that it was asked for, and has given the socket a
/// whole record when `send` has taken the last byte that it was given.
///
/// Threads: one at a time. Ownership: owns the descriptor, which its user adds to an `event_poll`.
/// Errors: -1 with errno as sockets and `tls_session` have it; 0 at the end of the stream. EFAULT
/// when pieces are to be received into memory that the process may not write to; the single-piece
/// `receive` does not check this under TLS.
class stream_socket {
public:
  using step = tls_session::step;

  stream_socket() = default;
  /// A plain connection, or one under TLS that stands already.
  stream_socket(unique_fd fd, std::optional<tls_session> tls = std::nullopt) noexcept
      : fd_(std::move(fd)), tls_(std::move(tls)) {}
  /// A connection that is being made, for `establish`. @param wanted null: the connection stays
  /// plain
  static stream_socket dialled(unique_fd fd, std::shared_ptr<tls_context> wanted) noexcept;

  /// Takes the next step of a dialled connection: the connect, then the handshake if TLS is wanted.
  /// After `refused` errno says why, as for `send`, and `refusal` says it in words.
  /// @pre the socket has become writable once
  step establish() noexcept;
  /// Whether TLS is wanted and `establish` has not completed its handshake yet.
  bool is_to_establish() const noexcept { return wanted_ || (tls_ && !tls_->established()); }
  /// Why TLS has refused the peer, or the peer this side; empty when neither did.
  std::string refusal() const { return tls_ ? tls_->refusal() : std::string(); }

  /// The events to poll(2) for before `establish` goes on. @pre is_to_establish()
  short awaited() const noexcept { return tls_ ? tls_->awaited() : short{POLLOUT}; }
  /// Whether the other side has shown a certificate. @pre TLS stands, if there is to be TLS
  bool is_known() const noexcept { return tls_ && !tls_->peer().name.empty(); }
  bool under_tls() const noexcept { return tls_.has_value(); }
  /// The name in the certificate that the other side has shown; empty without TLS.
  std::string peer_name() const {
    return tls_ && tls_->established() ? tls_->peer().name : std::string();
  }
  int fd() const noexcept { return fd_.get(); }
  void close() noexcept;

  ssize_t send(const void* bytes, std::size_t count) noexcept;
  /// Sends as much of the pieces as can be sent without blocking.
  ssize_t send(std::span<const iovec> pieces) noexcept;
  ssize_t receive(void* bytes, std::size_t count) noexcept;
  ssize_t receive(std::span<const iovec> pieces) noexcept;

  /// Tells the other side that nothing more is sent. @pre all that `send` was given is sent
  void finish() noexcept;

  ssize_t send_past_tls(std::span<const iovec> pieces) noexcept;
  ssize_t receive_past_tls(std::span<const iovec> pieces) noexcept;

private:
  unique_fd fd_;
  std::shared_ptr<tls_context> wanted_; ///< TLS that begins when the socket is connected.
  /// The TLS session; declared after `fd_`, which it uses, so that it ends first.
  std::optional<tls_session> tls_;
};

} // namespace peercache::net
