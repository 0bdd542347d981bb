#pragma once

#include "link/lookup_datagram.hpp"
#include "link/member_question.hpp"
#include "net/frame_stream.hpp"
#include "net/stream_socket.hpp"

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace peercache::client {

/// How a question to a member has ended.
enum class question_end : std::uint8_t {
  answered,
  not_sent, ///< The member has not heard the question: its time was over, or too many questions
            ///< waited.
  late,     ///< The question was sent, and its time was over before the answer came.
  gone,     ///< There is no connection, or it has ended; the member may have heard the question.
};

struct member_answer {
  question_end how = question_end::gone;
  std::string body; ///< Body of the answer; empty unless `answered`.
};

/// A question to a member, and who takes its answer.
struct member_request {
  link::member_question kind = link::member_question::hello;
  std::string body;
  /// The end of the question's time: nobody waits for the answer longer. A promote is sent with the
  /// time that is left until then, whatever its body says.
  std::chrono::steady_clock::time_point until;
  std::function<void(member_answer)> take; ///< Takes the answer; called once.
};

/// One connection to the look-up port of a member, for numbered questions
/// (link/member_question.hpp). The channel says hello at its begin and every second: a member that
/// does not answer, or has the certificate of another name under TLS, counts as absent. Until the
/// first answer only the greeting and a hello are sent. Expensive questions (promote, look-up,
/// warm), questions for views, and all other questions have a lane each with limits of its own, so
/// that no promote holds up a remove, and neither holds up a call that waits for a view.
///
/// Threads: one at a time. Time is an argument. Errors: `step` returns false when the connection is
/// over, for whatever reason; `end` then ends all questions. Bounds: what a member lets be open at
/// once; further questions wait, `waiting_max` of each kind. Each question ends by its time, when
/// `step` is called by `due`.
class member_channel {
public:
  using time_point = std::chrono::steady_clock::time_point;

  /// Hellos come at multiples of this time, like the beats of all processes of this host
  /// (common/beat_time.hpp), so that each process wakes once for all of them.
  static constexpr std::chrono::milliseconds hello_every{1000};
  /// Longest time to the answer of a hello.
  static constexpr std::chrono::milliseconds hello_patience{2000};
  /// Longest time until the TCP connection stands; a handshake of TLS is part of the time of the
  /// first hello.
  static constexpr std::chrono::milliseconds connect_patience{300};
  static constexpr std::size_t waiting_max = 1024;
  static constexpr std::size_t waiting_bytes_max = 16u << 20;

  /// @param name of the member
  member_channel(std::string name, net::stream_socket socket, std::string_view greeting,
                 time_point now);
  /// A channel does not move: its open questions point at its lanes.
  member_channel(const member_channel&) = delete;
  member_channel& operator=(const member_channel&) = delete;

  int fd() const noexcept { return stream_.fd(); }
  void on_events(std::uint32_t events) noexcept { stream_.on_events(events); }
  /// Takes a question; when too many wait already, the question ends at once.
  void ask(member_request request);
  /// Sends, receives and looks at the clock, without blocking. False: the connection is over.
  bool step(time_point now);
  /// Returns when `step` has something to do though no event comes.
  time_point due() const noexcept;
  /// Whether the member has answered a hello.
  bool stands() const noexcept { return stands_; }
  /// The pass for look-ups by datagram in the member's last answer to a hello, if any.
  const std::optional<link::datagram_pass>& pass() const noexcept { return pass_; }
  /// Ends all questions.
  void end();

private:
  /// Questions that share one limit of questions, and one of bytes, that are open at the member.
  struct lane {
    const std::size_t open_max;
    /// Limit of `open_bytes`, which a single open question may exceed.
    const std::uint64_t open_bytes_max;
    std::deque<member_request> waiting{};
    std::size_t waiting_bytes = 0;
    std::size_t open = 0;
    std::uint64_t open_bytes = 0;

    bool has_room(std::uint64_t held) const noexcept {
      return open < open_max && (open == 0 || open_bytes + held <= open_bytes_max);
    }
  };
  struct open_question {
    lane* of = nullptr;
    std::uint64_t held_bytes = 0;
    time_point until;
    /// Takes the answer; null: the question's time is over, and the answer is ignored.
    std::function<void(member_answer)> take;
  };

  void say_hello(time_point now);
  time_point next_hello() const noexcept;
  lane& lane_of(link::member_question kind) noexcept;
  void end_overdue(time_point now);
  void end_overdue_waiting(lane& of, time_point now);
  void send_waiting(lane& of, time_point now);
  bool receive();
  bool take_answer(std::string_view payload);
  bool is_late(time_point now) const noexcept;

  const std::string name_;
  net::frame_stream stream_;
  // The questions of the three lanes and one hello add up to the number that a member lets be open.
  lane views_{2, 160u << 10};
  lane light_{13, 352u << 10};
  lane heavy_{link::member_questions_open_max - 16, 1536u << 10};
  std::map<std::uint32_t, open_question> open_; ///< Questions that were sent and not answered, by
                                                ///< number.
  time_point next_end_ = time_point::max();     ///< Earliest time at which an open or waiting
                                                ///< question may be over.
  std::uint32_t last_number_ = 0;
  time_point begun_at_;
  std::optional<std::uint32_t> hello_; ///< Number of the hello that is not answered yet.
  time_point hello_at_;                ///< When the last hello was said.
  bool stands_ = false;
  std::optional<link::datagram_pass> pass_;
};

} // namespace peercache::client
