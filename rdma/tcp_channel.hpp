#pragma once

#include "rdma/batch_job.hpp"
#include "rdma/page_receiver.hpp"
#include "rdma/socket.hpp"
#include "rdma/tcp_options.hpp"
#include "rdma/tcp_protocol.hpp"

#include <array>
#include <cstdint>
#include <vector>

namespace peercache::rdma {

/// One connection of a reader to a page server: connect, hello, then requests of one batch at a
/// time, several ahead. Threads: none; the plane's owner serializes. Ownership: lends the job it is
/// attached to; once closed or detached it writes to no part of it. Errors: `step` says `broken`,
/// and `loss()` why; the connection is of no use any more. Invariants: (1) it carries bytes of at
/// most one job; (2) all it received for a job it has decided or dropped before it serves another.
class tcp_channel {
public:
  enum class phase : std::uint8_t { connecting, greeting, ready, broken };
  enum class loss_reason : std::uint8_t {
    none,
    not_connected, ///< Refused, reset or closed before the hello was answered.
    other_incarnation,
    not_accepted, ///< Another cluster, or another wire version.
    closed,       ///< The peer closed or the connection failed.
    violation     ///< The peer said what the protocol does not allow.
  };
  enum class progress : std::uint8_t { blocked, moved, broken };

  tcp_channel(std::uint64_t id, unique_fd fd, const peer_endpoint& peer,
              const tcp_data_plane_options& opts, clock::time_point now);

  std::uint64_t id() const noexcept { return id_; }
  phase where() const noexcept { return phase_; }
  loss_reason loss() const noexcept { return loss_; }
  batch_job* job() const noexcept { return job_; }
  bool idle() const noexcept { return phase_ == phase::ready && job_ == nullptr; }
  bool carries_nothing() const noexcept { return sent_.empty(); }
  clock::time_point opened_at() const noexcept { return opened_at_; }
  clock::time_point idle_since() const noexcept { return idle_since_; }
  /// The connection had served before it was attached, and nothing has arrived since: when it
  /// breaks now, the peer had probably closed it long ago.
  bool may_be_stale() const noexcept { return served_before_ && !heard_since_attach_; }

  /// From here on requests of `job` are sent. @pre no job
  void attach(batch_job& job) noexcept;
  /// @pre carries_nothing()
  void detach(clock::time_point now) noexcept;

  /// What epoll said of the socket.
  void on_events(std::uint32_t events) noexcept;

  /// Sends and receives until the socket blocks or about `bytes_max` have arrived.
  progress step(std::size_t bytes_max);

  /// Closes the socket; nothing is written to the job's memory from here on. Gives back the
  /// sub-requests that were sent and not decided.
  std::vector<sub_request> close() noexcept;

private:
  bool finish_connect();
  void send_requests();
  bool flush();
  bool receive(std::size_t bytes_max, bool& moved);
  bool receive_head(bool& moved);
  bool receive_payload(std::size_t& budget, bool& moved);
  bool on_head();
  bool on_hello_answer();
  bool on_answer_head();
  void answer_done();
  bool check_silence();
  /// False for a dead connection; `bytes` 0 when there is nothing to read now.
  bool read_into(std::span<const iovec> to, std::size_t& bytes);
  std::size_t head_bytes() const noexcept;
  bool broken(loss_reason why) noexcept;

  // Constant after construction.
  const std::uint64_t id_;
  const tcp_data_plane_options& options_;
  const std::uint64_t cluster_;
  const incarnation inc_;
  const clock::time_point opened_at_;

  unique_fd fd_;
  phase phase_ = phase::connecting;
  loss_reason loss_ = loss_reason::none;
  bool readable_ = false;
  bool writable_ = false;
  bool hung_up_ = false; ///< The end of the stream is behind what can be read.
  bool served_before_ = false;
  bool heard_since_attach_ = false;
  clock::time_point idle_since_;

  batch_job* job_ = nullptr;
  std::vector<sub_request> sent_; ///< Oldest first; at most `requests_ahead_max`.
  std::uint64_t next_request_id_ = 1;

  std::vector<std::byte> out_; ///< Hello or requests, from `out_sent_` on not in the socket yet.
  std::size_t out_sent_ = 0;
  alignas(8) std::array<std::byte, answer_head_bytes_max> head_;
  std::size_t head_have_ = 0;
  page_receiver payload_;
};

} // namespace peercache::rdma
