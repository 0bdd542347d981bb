#pragma once

#include "net/frame_channel.hpp"
#include "net/socket.hpp"
#include "net/stream_socket.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace peercache::net {

/// One TCP connection, plain or under TLS, over which both sides send frames (`frames`) when they
/// like; for questions and answers there is `frame_channel`. The stream's owner adds `fd` to an
/// `event_poll`, hands events over, and calls `flush` and `receive`; neither blocks. `flush` shakes
/// hands first on a connection that was dialled under TLS.
///
/// Threads: one at a time. Errors: `ended` when the other side has closed or the connection broke,
/// which is seen only after all that arrived before was received; `fault` is the errno. Bounds:
/// `queue_bytes_max` bytes wait to be sent. Received bytes wait until they are taken; the owner
/// limits them by what it passes to `receive` and `take`.
class frame_stream {
public:
  frame_stream(stream_socket socket, std::size_t queue_bytes_max) noexcept
      : socket_(std::move(socket)), queue_bytes_max_(queue_bytes_max) {}

  int fd() const noexcept { return socket_.fd(); }
  /// Takes note of what `event_poll` reported.
  void on_events(std::uint32_t events) noexcept;
  /// Makes the next `flush` and `receive` try, whatever events have said. Does nothing before a
  /// handshake of TLS has begun: an event tells when the socket is connected.
  void look_again() noexcept {
    if (socket_.under_tls() || !socket_.is_to_establish())
      readable_ = writable_ = true;
  }

  /// Queues the bytes that come before all frames. @pre nothing was queued before
  void push_greeting(std::string_view bytes);
  /// Queues a frame. False, and nothing is queued, when too many bytes would wait.
  /// @pre payload.size() <= payload_bytes_max
  bool push(std::string_view payload, std::size_t payload_bytes_max);
  void flush() noexcept;
  /// Tells the other side that nothing more will be sent. @pre queued_bytes() == 0
  void finish() noexcept;
  std::size_t queued_bytes() const noexcept { return out_.size() - sent_; }
  /// Whether the connection was ever established: the kernel has taken a byte, or TLS has begun.
  bool has_sent() const noexcept { return has_sent_ || socket_.under_tls(); }
  /// Whether the connection is under TLS, or shakes hands for it.
  bool under_tls() const noexcept { return socket_.under_tls(); }
  /// The name in the other side's certificate; empty without TLS, and while it shakes hands.
  std::string peer_name() const { return socket_.peer_name(); }

  /// Receives the bytes that have arrived, at most `bytes_max`. Returns their number.
  std::size_t receive(std::size_t bytes_max);
  /// Takes the next frame that is whole; its payload is valid until the next `receive` or
  /// `discard`. Nothing when no frame is whole, and always after `too_long`.
  std::optional<std::string_view> take(std::size_t payload_bytes_max) noexcept;
  void discard() noexcept;
  /// Whether a frame was longer than `take` allowed: no further frame can be found.
  bool too_long() const noexcept { return too_long_; }

  /// Whether `receive` or `flush` may have something to do without a new event.
  bool wants_turn() const noexcept {
    return !ended_ && (readable_ || (writable_ && queued_bytes() > 0));
  }
  bool ended() const noexcept { return ended_; }
  /// Why the connection ended: an errno, 0 when the other side closed it.
  int fault() const noexcept { return fault_; }
  /// `fault` for people. @pre fault() != 0
  std::string fault_text() const;

private:
  bool shake_hands() noexcept;
  void drop_sent() noexcept;
  void drop_taken() noexcept;

  stream_socket socket_;
  std::size_t queue_bytes_max_;
  std::string out_;
  std::size_t sent_ = 0; ///< How many bytes of `out_` are sent.
  std::string in_;
  /// How many bytes at the front of `in_` belong to frames that were taken.
  std::size_t taken_ = 0;
  int fault_ = 0;
  bool readable_ = false;
  bool writable_ = false;
  bool has_sent_ = false;
  bool too_long_ = false;
  bool ended_ = false;
};

} // namespace peercache::net
