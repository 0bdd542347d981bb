#pragma once

#include "common/ids.hpp"
#include "common/result.hpp"
#include "net/socket.hpp"
#include "net/tls_context.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace peercache::net {

/// Questions and answers over one TCP connection, little endian (any change is another
/// `wire_version`, which is the `version` of the greeting):
///
///   greeting   offset bytes                    frame   offset bytes
///     magic         0     4  what is asked       length     0     4  of the payload
///     version       4     4                      payload    4
///     cluster       8     8  digest of its name
///     incarnation  16    16  of the process that is meant
///
/// The asking side greets and goes on with its first question at once; a server that is not the
/// process meant closes the connection. With the magic "PCL1" each frame is answered by one frame,
/// in order, so that many questions may be on their way; frames after other magics have numbers
/// (link/member_question.hpp).
namespace frames {
inline constexpr std::uint32_t magic = 0x314c4350;
inline constexpr std::size_t greeting_bytes = 32;
inline constexpr std::size_t length_bytes = 4;
inline constexpr std::uint32_t payload_bytes_max = 1u << 21;

std::string greeting(std::uint32_t version, std::string_view cluster, const incarnation& meant,
                     std::uint32_t of = magic);
/// Appends a frame with this payload to `out`. @pre payload.size() <= bytes_max
void append_frame(std::string& out, std::string_view payload,
                  std::size_t bytes_max = payload_bytes_max);
/// Takes the first frame off `bytes` and gives its payload. False when the frame is not complete;
/// `too_long` is then set if its length exceeds `bytes_max`, so that it is never taken.
bool take_frame(std::string_view& bytes, std::string_view& payload, bool& too_long,
                std::size_t bytes_max = payload_bytes_max) noexcept;
} // namespace frames

/// The asking side of one connection, plain or under TLS. Non-blocking: whoever owns the channel
/// polls `fd`.
/// Threads: one at a time. Errors: `advance` returns `broken`; the channel is no longer usable
/// then.
class frame_channel {
public:
  enum class state : std::uint8_t { asking, answered, broken };

  /// Starts to connect to a server. @param host numeric address @param tls null: the connection is
  /// plain
  static result<std::unique_ptr<frame_channel>> open(const std::string& host, std::uint16_t port,
                                                     std::string greeting,
                                                     tls_context* tls = nullptr);

  /// Whether the server, as far as the kernel has heard, still has its end of the connection.
  bool lives() const noexcept;

  /// Asks `question`, cut into frames of at most `frame_bytes`. @pre the previous question is
  /// answered; frame_bytes > 0
  void ask(std::string_view question, std::size_t frame_bytes);

  /// Adds one frame to the question; its answer comes after those of the earlier frames.
  /// @pre `payload` is not empty, and `ask` was called for this question, if only with an empty
  /// text
  void add(std::string_view payload);

  /// Sends or receives what is possible without blocking. A call that has sent the end of a
  /// question receives nothing: wait for `events` before the next call.
  state advance();

  /// The payloads of all answers, one after the other. @pre `advance` returned `answered`
  const std::string& answer() const noexcept { return answer_; }

  int fd() const noexcept { return socket_.get(); }
  /// The events to poll(2) for: POLLIN, and POLLOUT while there is something to send; during the
  /// handshake of TLS the events that the handshake waits for.
  short events() const noexcept;

private:
  frame_channel(unique_fd socket, std::string greeting)
      : socket_(std::move(socket)), out_(std::move(greeting)) {}
  bool send_some();
  bool receive_some();

  unique_fd socket_;
  std::optional<tls_session> tls_; ///< TLS of the connection; none: it is plain.
  std::string out_;                ///< Bytes to send: the greeting first, then frames.
  std::size_t sent_ = 0;           ///< How many bytes of `out_` are sent.
  std::string in_;                 ///< Bytes that were received and are not a whole frame yet.
  std::string answer_;
  std::size_t unanswered_ = 0; ///< Frames of the question whose answers have not come.
};

} // namespace peercache::net
