#pragma once

#include "handoff/links/event_batch.hpp"
#include "handoff/links/link_event.hpp"
#include "handoff/links/link_options.hpp"
#include "handoff/messages.hpp"
#include "net/frame_stream.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace peercache::handoff {

/// One connection between two workers, of either origin:
///
///   greeting   the worker that has begun it says hello, the other one answers with its own
///   joined     messages in both directions, beats while there are none
///   leaving    this side has refused the other side, and waits until the other side has closed
///   over       the owner destroys it
///
/// The end of a connection that was joined, or that this worker has begun, is one `peer_lost`; what
/// a stranger does before its hello is not an event.
///
/// Threads: one owner. Time is an argument. Errors: whatever the other side does, at worst its
/// connection ends. Bounds: `link_options`.
class peer_link {
public:
  using time_point = std::chrono::steady_clock::time_point;
  enum class phase : std::uint8_t { greeting, joined, leaving, over };
  enum class origin : std::uint8_t { dialed, accepted };

  /// Options and hello, which all connections of a worker share.
  struct own_side {
    link_options options;
    hello self;
  };

  /// @param own outlives the link
  peer_link(peer_id id, const own_side& own, net::stream_socket socket, origin from,
            time_point now);

  /// From now on accepts only this process at the other end. False when the other side is another
  /// process, or an earlier `connect` meant another process.
  bool narrow_to(const incarnation& process) noexcept;

  void on_events(std::uint32_t events) noexcept { stream_.on_events(events); }
  /// Sends and receives what is possible without blocking, up to a limit per call and until `out`
  /// is full. `wants_turn` then says whether more may be possible.
  void step(time_point now, event_batch& out);
  bool wants_turn() const noexcept {
    return phase_ != phase::over && (frames_wait_ || stream_.wants_turn());
  }

  /// Time at which `check_time` has something to do.
  time_point deadline() const noexcept;
  /// Sends a beat that is due, and ends a link that is overdue. What has arrived is taken first,
  /// since this process may not have been running for a while.
  void check_time(time_point now, event_batch& out);

  /// Queues a message; does nothing when the link has ended. @pre the peer has joined
  void send(const message& what, time_point now, event_batch& out);
  /// Sends as much of the queue as the kernel takes at once.
  void flush() noexcept { stream_.flush(); }
  /// Ends the connection with a refusal to the other side, and adds no event. @pre `is_open`
  void refuse(const std::string& reason, time_point now);
  /// Ends the connection at once, with a `peer_lost` unless the peer is a stranger. @pre `is_open`
  void lose(loss_reason reason, std::string detail, event_batch& out);

  phase in_phase() const noexcept { return phase_; }
  bool is_open() const noexcept { return phase_ == phase::greeting || phase_ == phase::joined; }
  /// Whether the other side has begun the connection and not said hello, or was refused
  /// (`link_options::strangers_max`).
  bool is_stranger() const noexcept {
    return phase_ == phase::leaving || (phase_ == phase::greeting && origin_ == origin::accepted);
  }

private:
  void receive(time_point now, event_batch& out);
  std::size_t frame_bytes_max() const noexcept;
  void take_frames(time_point now, event_batch& out);
  void take_message(std::string_view bytes, time_point now, event_batch& out);
  void take_hello(const message& first, time_point now, event_batch& out);
  std::optional<std::string> objection_to(const hello& said) const;
  void reject(loss_reason reason, const std::string& detail, time_point now, event_batch& out);
  void leave(const std::string& reason, time_point now);
  void lose_ended(time_point now, event_batch& out);
  void lose_stuck(time_point now, event_batch& out);
  void lose_overdue(event_batch& out);
  void linger();
  bool overdue(time_point now) const noexcept;

  peer_id id_;
  const own_side& own_;
  origin origin_;
  phase phase_ = phase::greeting;
  net::frame_stream stream_;
  std::optional<incarnation> meant_; ///< The process that must be at the other end.
  /// When the last bytes came in phase `joined`; in other phases, when the phase began.
  time_point heard_at_;
  time_point sent_at_;
  bool finished_ = false;    ///< In phase `leaving`: the refusal is sent.
  bool frames_wait_ = false; ///< Received frames may wait unread, because `out` was full.
};

} // namespace peercache::handoff
