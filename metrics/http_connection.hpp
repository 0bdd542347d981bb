#pragma once

#include "net/stream_socket.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace peercache::metrics {

/// A connection of the HTTP port, plain or under TLS: takes one request (a body only with /query
/// and /query_by_hash), then sends one answer, and ends.
/// Never blocks: a client that says nothing or takes nothing holds up nobody else.
/// Threads: none; the server's owner serializes. Ownership: closes its socket. Time: an argument.
/// Errors: a broken connection goes to the state `over`, as does a connection that has ended well.
class http_connection {
public:
  using time_point = std::chrono::steady_clock::time_point;

  enum class state : std::uint8_t {
    greeting, ///< The TLS handshake is under way.
    reading,  ///< The request is not complete.
    asked,    ///< The whole request has come, and waits for `answer`.
    waiting,  ///< Another thread makes the answer; `answer` will be called.
    sending,
    /// All is sent; the server waits for the client to close, so that the client gets every byte.
    ending,
    over
  };
  struct patience {
    /// Time from the begin of the connection to the last byte of its request.
    std::chrono::milliseconds head{2000};
    std::chrono::milliseconds send{2000};  ///< How long the client may take no byte of the answer.
    std::chrono::milliseconds query{3000}; ///< Longest time in the state `waiting`.
  };
  /// The clients whose request bodies are received: all clients, or those that have shown a
  /// member's certificate.
  enum class bodies : std::uint8_t { of_all, of_members };

  static constexpr std::size_t head_bytes_max = 16u << 10;
  /// The most bytes in the body of a query.
  static constexpr std::size_t body_bytes_max = 2u << 20;

  /// Takes over an accepted socket: a plain one, or one under TLS whose handshake has not begun.
  http_connection(net::stream_socket socket, const patience& with, bodies taken, time_point now);

  /// Receives or sends the bytes that the socket takes now, without blocking. Returns the
  /// connection's state afterwards.
  state advance(time_point now);
  /// The head of the request, with the empty line at its end. @pre `advance` said `asked`
  std::string_view head() const noexcept { return std::string_view(in_).substr(0, head_bytes_); }
  /// The body of a query; empty for other requests. @pre `advance` said `asked`
  std::string_view body() const noexcept {
    return std::string_view(in_).substr(head_bytes_, wanted_ - head_bytes_);
  }
  /// Notes that the answer comes later. The request's bytes are forgotten.
  void wait(time_point now);
  /// Sends the answer. @pre the state is `asked` or `waiting`, or `is_taking_body()`
  void answer(std::string bytes, time_point now);

  state where() const noexcept { return state_; }
  /// Whether the body of a query is on its way: up to `body_bytes_max` bytes are held for it.
  bool is_taking_body() const noexcept { return state_ == state::reading && wanted_ != 0; }
  int fd() const noexcept { return socket_.fd(); }
  /// Whether the client has shown a member's certificate. @pre under TLS, the handshake is over
  bool is_known() const noexcept { return socket_.is_known(); }
  /// Why TLS has refused the client; empty when it has not.
  const std::string& refusal() const noexcept { return refusal_; }
  /// The events that the owner is to poll(2) the socket for.
  short events() const noexcept;
  /// The time at which the owner closes the connection unless its state or this time changes
  /// before.
  time_point until() const noexcept { return until_; }

private:
  void greet();
  void receive();
  /// Bytes of the body to receive behind a complete head; 0: none.
  std::size_t body_bytes() const noexcept;
  void send(time_point now);
  void discard();

  net::stream_socket socket_;
  patience patience_;
  bodies taken_;
  state state_;
  time_point until_;
  std::string refusal_;
  std::string in_;
  std::size_t head_bytes_ = 0; ///< Bytes of the request's head; 0: the head has not come yet.
  std::size_t wanted_ = 0;     ///< Bytes of the whole request; 0: the head has not come yet.
  std::string out_;
  std::size_t sent_ = 0; ///< How many bytes of `out_` are sent.
};

/// Whether the head is of a router's query, POST /query or POST /query_by_hash, whose body is read.
bool is_query(std::string_view head) noexcept;

/// The number in the header Content-Length of a request's head; 0 where the header is missing or
/// not a number.
std::size_t content_length_of(std::string_view head) noexcept;

} // namespace peercache::metrics
