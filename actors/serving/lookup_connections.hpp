#pragma once

#include "common/ids.hpp"
#include "link/member_question.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace peercache::actors {

using link::member_question;

/// Bytes of memory that an empty buffer of a connection may keep. No limit counts them, and a node
/// has thousands of connections.
inline constexpr std::size_t kept_room_max = 8192;

/// Frees the memory that a buffer does not use, unless there is little of it.
template <class Buffer>
void give_back_room(Buffer& used) {
  if (used.capacity() > std::max<std::size_t>(kept_room_max, 2 * used.size()))
    Buffer(used.begin(), used.end()).swap(used);
}

/// The connections on which clients look keys up in this node's directory shard, and the
/// connections on which clients ask this node all other questions (link/member_question.hpp). A
/// connection's greeting says which kind it is. Users wait for look-ups: over CAF's own protocol
/// they cost four to six round trips of a plain socket (docs/flows.md), over these frames one and a
/// bit.
///
/// Threads: one at a time. Limits: `connections_max`; the time to a whole greeting
/// (`greeting_patience`) and without a whole question (`idle_patience`); questions besides look-ups
/// that are open at once on a connection (`member_questions_open_max`); bytes held for one
/// connection (`held_bytes_max`) and for all (`total_bytes_max`). Both count received bytes, the
/// longest answer that each open question may get, and answers that the peer has not taken yet. A
/// peer that asks for more than it reads loses its connection and nothing else.
class lookup_connections {
public:
  /// Names a connection; never given to a second one.
  using handle = std::uint64_t;
  using time_point = std::chrono::steady_clock::time_point;

  static constexpr std::chrono::seconds greeting_patience{2};
  /// Time after which an idle connection is closed. Clients look whether that has happened before
  /// they use an idle connection.
  static constexpr std::chrono::seconds idle_patience{300};
  /// Most connections at a time: enough for a thousand nodes with eight clients each. Each client
  /// keeps one connection to each node for questions, and may open one more for look-ups and one
  /// for holds.
  static constexpr std::size_t connections_max = 24'576;
  /// Bytes for one connection: twice what the largest call of a client needs, because a client asks
  /// its next question only after the answers.
  static constexpr std::uint64_t held_bytes_max = 4u << 20;
  static constexpr std::uint64_t total_bytes_max = 256u << 20;

  /// @param greeting of connections for look-ups
  /// @param questions_greeting of connections for other questions
  lookup_connections(std::string greeting, std::string questions_greeting)
      : greeting_(std::move(greeting)), questions_greeting_(std::move(questions_greeting)) {}

  bool add(handle from, time_point now);
  void remove(handle gone);

  /// Whether the peer has said its whole greeting. Nothing else is read from it before that.
  bool greeted(handle which) const;
  /// Whether the peer's greeting was that of connections for questions other than look-ups.
  bool asks_member(handle which) const;
  /// Takes received bytes and puts the payloads of questions that are complete into `questions`; on
  /// a connection that `asks_member`, `link::read_question` accepts each payload. False: close the
  /// connection.
  bool receive(handle from, std::string_view bytes, time_point now,
               std::vector<std::string>& questions);

  /// Notes that a look-up of the connection was passed on to an actor, which has not answered it.
  void passed_on(handle which);
  /// Whether a question of the connection waits for an actor's answer.
  bool waits(handle which) const;

  /// Counts an answer of `frame_bytes`, which is about to be sent, as held by the connection, and
  /// its question no longer. False, and nothing is counted, when the connection was removed.
  bool answered(handle which, std::size_t question_bytes, std::size_t frame_bytes);
  /// Does as `answered` does, for a question that is not a look-up of a call.
  bool member_answered(handle which, member_question kind, std::size_t body_bytes,
                       std::size_t frame_bytes);
  /// Call when the peer has taken `bytes` of its answers.
  void taken(handle by, std::size_t bytes, time_point now);

  /// While the connections together hold more than `total_bytes_max`, returns the one that holds
  /// most, to be closed.
  std::optional<handle> one_too_many() const;

  /// Returns the connections whose greeting is late, or that are idle for too long: to be closed.
  std::vector<handle> overdue(time_point now) const;
  /// Whether a connection has not sent its whole greeting yet.
  bool some_owe_greeting() const;

  std::uint64_t held_bytes() const noexcept { return total_bytes_; }
  /// Bytes of memory that a connection keeps for what it has received; 0: there is no such
  /// connection.
  std::size_t room_of(handle which) const;

private:
  struct connection {
    std::string received;
    bool greeted = false;
    bool asks_member = false;
    /// Questions that are not answered, where `asks_member`; otherwise look-ups that were passed on
    /// to an actor and are not answered.
    std::size_t open = 0;
    /// When the connection began, or when the peer last sent a whole question or took bytes of an
    /// answer.
    time_point moved_at;
    std::uint64_t held_bytes = 0;
  };

  /// Takes the greeting off `rest`, once it is whole. False: these bytes can become neither of the
  /// two greetings.
  bool take_greeting(connection& known, std::string_view& rest, time_point now) const;
  bool take_question(connection& known, std::string_view payload);
  bool settle(handle which, std::uint64_t question_bytes, std::size_t frame_bytes);
  void hold(connection& whose, std::uint64_t bytes) noexcept;
  void release(connection& whose, std::uint64_t bytes) noexcept;

  /// Greeting of connections for look-ups; peers that send neither greeting get no answer.
  const std::string greeting_;
  const std::string questions_greeting_;
  std::unordered_map<handle, connection> connections_;
  std::uint64_t total_bytes_ = 0; ///< Sum of the connections' held_bytes.
};

} // namespace peercache::actors
