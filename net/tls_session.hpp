#pragma once

#include "net/tls_identity.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <sys/types.h>

struct ssl_ctx_st;

namespace peercache::net {

/// The peers that one side of a connection lets in.
enum class tls_peers : std::uint8_t {
  nodes,               ///< For the side that dials a port: only nodes have ports.
  nodes_and_operators, ///< For the side that accepts at a control port.
  members, ///< For the side that accepts elsewhere, and for engines that dial one another.
  anyone,  ///< For the side that accepts: also peers that show no certificate.
};

/// The TLS of one connection over a non-blocking socket. Both sides show a certificate, unless the
/// accepting side wants `tls_peers::anyone`. The handshake refuses a peer whose identity
/// (tls_identity) is of another cluster, or not of the wanted role. `send` and `receive` shake
/// hands as far as they can before they move bytes.
///
/// Threads: one at a time. Ownership: `fd` is borrowed, and stays open for as long as the session.
/// Errors: -1 with errno as sockets have it: EAGAIN when nothing can be done without blocking (wait
/// for `awaited`), EPROTO when the peer or its bytes were refused (`refusal` says why), otherwise
/// what the socket said. No signal is raised when the peer is gone.
class tls_session {
public:
  enum class step : std::uint8_t { working, established, refused };
  enum class side : std::uint8_t { dials, accepts };

  /// @param context as tls_context hands it out; the session keeps it alive
  tls_session(ssl_ctx_st* context, int fd, side which, std::string cluster, tls_peers wanted);
  tls_session(tls_session&&) noexcept;
  tls_session& operator=(tls_session&&) noexcept;
  ~tls_session();

  /// Takes the next step of the handshake. After `refused`, with errno, the connection is of no
  /// use.
  step shake_hands() noexcept;
  bool established() const noexcept;
  /// The events to poll(2) for before the next call, after EAGAIN or `working`.
  short awaited() const noexcept;

  /// Sends some of the bytes, as ::send does. After EAGAIN the next call has the same bytes, and
  /// maybe more behind them.
  ssize_t send(const void* bytes, std::size_t count) noexcept;
  /// Receives the bytes that have arrived, at most `count`; 0 when the peer has ended the session.
  ssize_t receive(void* bytes, std::size_t count) noexcept;
  /// Tells the peer that nothing more is sent. @pre all that `send` was given is sent
  void finish() noexcept;
  /// Bytes that `receive` gives although the socket has none: no event tells of them.
  std::size_t buffered_bytes() const noexcept;

  /// Why this side refused the peer, or the peer this side; empty when neither did.
  const std::string& refusal() const noexcept;
  /// The peer's identity; without a name if it shows no certificate. @pre established()
  const tls_identity& peer() const noexcept;

private:
  friend struct tls_socket;
  struct state;
  std::unique_ptr<state> state_;
};

} // namespace peercache::net
