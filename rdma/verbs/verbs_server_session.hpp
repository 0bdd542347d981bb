#pragma once

#include "net/stream_socket.hpp"
#include "rdma/data_plane.hpp"
#include "rdma/verbs/queue_pair.hpp"
#include "rdma/verbs/session_windows.hpp"
#include "rdma/verbs/verbs_protocol.hpp"
#include "rdma/verbs/verbs_server_options.hpp"
#include "rdma/verbs/verbs_server_stats.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace peercache::rdma {

/// One reader's queue pair on the serving side, with its control connection: sends the answer and
/// the chunks of the region, takes the ready message, and from then on waits for the end of the
/// connection.
/// Threads: none; the rail serializes. Ownership: owns socket, queue pair and its windows. The
/// queue pair stops answering before its windows end, and ends before the socket does, so that a
/// reader that sees the connection end knows that nothing answers its READs. Memory: this object
/// only, and chunks are sent from the rail's list; with windows 100 bytes per chunk.
class verbs_server_session {
public:
  enum class progress : std::uint8_t { blocked, moved, closed, violated };

  /// What of the rail's memory the session tells its reader, who has waited since `came_at`.
  struct served {
    bool windows = false;   ///< Whether the reader is told of windows, which `bind` makes.
    std::size_t chunks = 0; ///< Chunks that are served when the session begins.
    clock::time_point came_at = clock::time_point::max(); ///< No later than the session's begin.
  };

  verbs_server_session(net::stream_socket socket, verbs::queue_pair pair,
                       const verbs_answer& answer, const served& what,
                       const verbs_server_options& options, clock::time_point now);
  ~verbs_server_session();

  void on_events(std::uint32_t events) noexcept;
  /// Posts bindings of windows; see session_windows. @pre the session has windows
  result<void> bind(const served_chunks& all, std::uint32_t at_most, std::uint64_t wr_id,
                    clock::time_point now) {
    return windows_.bind(all, pair_, at_most, wr_id, now);
  }
  session_windows& windows() noexcept { return windows_; }
  const session_windows& windows() const noexcept { return windows_; }

  /// Sends and receives what can be sent and received without blocking.
  /// @param announced all chunks that are registered so far; only grows from call to call
  progress step(clock::time_point now, std::span<const region_chunk> announced);

  /// Whether the session has begun to send its answer, which waits for windows.
  bool answered() const noexcept { return sent_bytes_ != 0; }
  /// Whether the answer waits for windows, for which it still has time.
  bool waits(clock::time_point now) const noexcept;
  /// Whether the answer has waited for long enough, and no window is bound: the reader is better
  /// off elsewhere.
  bool waits_in_vain(clock::time_point now) const noexcept;
  /// Sends a refusal instead of the answer, with one try. @pre !answered()
  void turn_away(const verbs_answer& refusal) noexcept;
  /// Stops the queue pair, then closes the connection; of its windows each can be ended then.
  void retire() noexcept;
  bool established() const noexcept { return ready_have_ == ready_.size(); }

  /// Why the session has to end now; nothing when it may go on. `look` checks idleness, not this
  /// function.
  std::optional<session_end> overdue(clock::time_point now,
                                     const verbs_server_options& options) const noexcept;

  bool wants_look(clock::time_point now, const verbs_server_options& options) const noexcept;
  /// Asks the queue pair whether a READ has come since the last look: one system call. Returns true
  /// when the session is idle for too long.
  bool look(clock::time_point now, const verbs_server_options& options) noexcept;

private:
  bool send(clock::time_point now, std::span<const region_chunk> announced);
  progress receive();

  net::stream_socket socket_;
  verbs::queue_pair pair_;
  session_windows windows_;
  const verbs_answer answer_;
  const bool has_windows_;
  const std::size_t wanted_; ///< Windows that the answer waits for.
  const std::chrono::milliseconds windows_wait_;
  const clock::time_point answer_until_; ///< Until when the answer may wait for windows.
  const clock::time_point began_at_;
  bool readable_ = true; ///< Whether the socket may have bytes; false once a read found none.
  bool writable_ = true;
  bool retired_ = false;
  /// How many bytes were sent so far: of the answer, then of the list of chunks (`region_chunk`).
  std::uint64_t sent_bytes_ = 0;
  std::optional<clock::time_point> stalled_since_;
  std::array<std::byte, sizeof(verbs_ready)> ready_;
  /// Bytes of the ready message that have come; all of them are right.
  std::size_t ready_have_ = 0;
  clock::time_point looked_at_;
  clock::time_point quiet_since_;
  std::optional<std::uint32_t> expected_psn_; ///< The queue pair's expected PSN at the last look.
};

} // namespace peercache::rdma
