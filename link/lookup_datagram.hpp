#pragma once

#include "common/ids.hpp"
#include "net/datagram_seal.hpp"
#include "net/datagram_socket.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

/// Look-ups by datagram, at the number of the look-up port. Little endian; any change is another
/// `wire_version`.
///
///   question  offset bytes                       answer    offset bytes
///     magic        0     4  "PCD1"                 magic        0     4  "PCD2"
///     version      4     4  wire_version           version      4     4  wire_version
///     client       8     8  by the pass            number       8     8  that of the question
///     number      16     8  never twice            nonce       16     8  never twice
///     sealed      24        keys                   sealed      24        lookup_reply, then the
///     tag               16                                               body
///                                                  tag               16
///
/// A client gets a pass in the answer to each hello on its connection for questions
/// (link/member_question.hpp), which is under TLS if the cluster is: its number and a secret of
/// this connection, which hold as long as the connection stands. The secret encrypts and
/// authenticates question and answer (net/datagram_seal.hpp), with the owner's incarnation, which
/// does not travel. So a stranger is not answered, no process takes another's answer for its own,
/// and a datagram that is sent again by somebody else is at most one more look-up, which changes
/// nothing.
///
///   pass      offset bytes
///     client       0     8
///     secret       8    16
namespace peercache::link {

struct datagram_pass {
  std::uint64_t client = 0;
  net::datagram_key secret{};
  bool operator==(const datagram_pass&) const = default;
};
inline constexpr std::size_t datagram_pass_bytes = 24;
std::string encode_pass(const datagram_pass& pass);
/// Reads the answer to a hello. Nothing: the member gives no pass.
std::optional<datagram_pass> read_pass(std::string_view bytes) noexcept;

enum class lookup_reply : std::uint8_t {
  places = 0,   ///< The body is the answer to the look-up (directory/wire.hpp).
  over_tcp = 1, ///< The look-up has to be asked over TCP: the shard is busy, or the answer long.
};

inline constexpr std::size_t datagram_header_bytes = 24;
/// Longest body of an answer.
inline constexpr std::size_t datagram_body_max =
    net::datagram_socket::bytes_max - datagram_header_bytes - net::datagram_seal::tag_bytes - 1;
/// Most keys of a question: as many as fit the answer where each page lies on one node.
inline constexpr std::size_t datagram_keys_max = 24;

struct datagram_question {
  std::uint64_t client = 0;
  std::uint64_t number = 0;
};
struct datagram_answer {
  lookup_reply reply = lookup_reply::over_tcp;
  std::string_view body; ///< Borrowed from the codec, until its next call.
};

/// Writes and reads both kinds of datagrams. Threads: one at a time.
class lookup_datagrams_codec {
public:
  void append_question(std::string& out, const datagram_pass& pass, const incarnation& owner,
                       std::uint64_t number, std::string_view keys);
  void append_answer(std::string& out, const net::datagram_key& secret, const incarnation& owner,
                     std::uint64_t number, std::uint64_t nonce, const datagram_answer& answer);

  /// Reads the client and the number that the bytes claim, of which nothing has been proved yet.
  /// Nothing: the bytes are not a question of this version, or have a size that no question has.
  static std::optional<datagram_question> question_of(std::string_view bytes) noexcept;
  /// Returns the keys of a question, valid until the next call; nothing when the bytes were not
  /// made with this secret, for this owner. @pre `question_of(bytes)` has named the secret's client
  std::optional<std::string_view>
  open_question(std::string_view bytes, const net::datagram_key& secret, const incarnation& owner);
  /// Reads the number of the question that the bytes claim to answer, of which nothing has been
  /// proved yet.
  static std::optional<std::uint64_t> answered_by(std::string_view bytes) noexcept;
  /// Returns an answer; nothing when the bytes were not made with this secret, by this owner.
  /// @pre `answered_by(bytes)` has a value
  std::optional<datagram_answer>
  open_answer(std::string_view bytes, const net::datagram_key& secret, const incarnation& owner);

private:
  net::datagram_seal seal_;
};

} // namespace peercache::link
