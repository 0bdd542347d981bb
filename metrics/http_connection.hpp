#pragma once

#include "net/stream_socket.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

namespace peercache::metrics {

/// One connection of the HTTP port, plain or under TLS: takes the head of one request, then sends
/// one answer, and ends.
/// Never blocks: a client that says nothing or takes nothing holds up nobody else.
/// Threads: none; the server's owner serializes. Ownership: closes its socket. Time: an argument.
/// Errors: a broken connection goes to the state `over`, as one does that has ended well.
class http_connection {
public:
  using time_point = std::chrono::steady_clock::time_point;

  enum class state : std::uint8_t {
    greeting, ///< TLS shakes hands.
    reading,  ///< The head of the request is not complete.
    asked,    ///< The whole head has come, and the request waits for `answer`.
    sending,
    ending, ///< All is sent; the client should close first, so that it gets every byte.
    over
  };
  struct patience {
    /// Time from the begin of the connection to the last byte of its request's head.
    std::chrono::milliseconds head{2000};
    std::chrono::milliseconds send{2000}; ///< How long the client may take no byte of the answer.
  };

  static constexpr std::size_t head_bytes_max = 16u << 10;

  /// Takes over a socket that was accepted, under TLS whose handshake has not begun, or plain.
  http_connection(net::stream_socket socket, const patience& with, time_point now);

  /// Receives or sends the bytes that the socket takes now, without blocking. Returns the
  /// connection's state afterwards.
  state advance(time_point now);
  /// The head of the request. @pre `advance` said `asked`
  const std::string& request() const noexcept { return in_; }
  void answer(std::string bytes, time_point now);

  state where() const noexcept { return state_; }
  int fd() const noexcept { return socket_.fd(); }
  /// Whether the client has shown a member's certificate. @pre `advance` said `asked`
  bool is_known() const noexcept { return socket_.is_known(); }
  /// Why TLS has refused the client; empty when it has not.
  const std::string& refusal() const noexcept { return refusal_; }
  /// The events that the owner is to poll(2) the socket for.
  short events() const noexcept;
  /// The time at which the connection is given up unless something happens before.
  time_point until() const noexcept { return until_; }

private:
  void greet();
  void receive();
  void send(time_point now);
  void discard();

  net::stream_socket socket_;
  patience patience_;
  state state_;
  time_point until_;
  std::string refusal_;
  std::string in_;
  std::string out_;
  std::size_t sent_ = 0; ///< How many bytes of `out_` are sent.
};

} // namespace peercache::metrics
