#pragma once

#include "rdma/batch_job.hpp"
#include "rdma/channel_options.hpp"
#include "rdma/channel_peer.hpp"
#include "rdma/data_plane.hpp"
#include "rdma/page_channel.hpp"
#include "rdma/published_stats.hpp"

#include <deque>
#include <memory>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

namespace peercache::rdma {

/// A data plane made of channels, each a connection to one peer: decides which batch uses which
/// channel, which batches wait, are retried or have run out of time. How the bytes travel is the
/// transport's business (`tcp_transport`, `verbs_transport`).
///
/// Each channel carries one batch at a time, so that a batch which times out takes down only its
/// own channels; batches beyond `channels_per_peer_max` wait. Large batches use several channels,
/// where the transport says so.
///
/// A poll is a turn of at most a few milliseconds, whatever is ready: it has a budget of bytes over
/// all channels, of batches to start and of connections to end, and what exceeds the budget waits
/// for the next poll. So the caller of `poll` looks at the clock often enough for every deadline.
///
/// Threads: as data_plane says; starts none. Time: `poll`'s argument; only `wait` looks at the
/// clock. Errors: connection refused, lost, or no room: `unreachable`; the address is another
/// process's: `holder_gone`; a batch that its caller judges, over a transport that does not take
/// such batches: `unreachable`; the peer failed repeatedly: `breaker_open`; too many batches or
/// peers, or another service of an incarnation: `refused`; a part that cannot be written to:
/// `bad_size`, for what had not arrived of the batch, and nothing against the peer. When a
/// connection breaks, the pages that it was to bring fail. A connection that had served before and
/// breaks before anything has arrived for its batch was closed by the peer while it was idle: then
/// its requests go out once more on a new connection. Breaker: connect failures, and batches that
/// ran to their deadline without a single answer, count. Invariants: (1) when a batch finishes, no
/// connection of it is open for receiving into its memory; (2) every batch that was submitted
/// finishes at the first `poll` after its deadline, or earlier.
class channel_data_plane final : public data_plane {
public:
  static result<std::unique_ptr<channel_data_plane>> create(const channel_plane_options& opts,
                                                            std::unique_ptr<transport> over);
  ~channel_data_plane() override;

  void submit(read_batch& batch) override;
  void cancel(const read_batch& batch) override;
  void adopt() noexcept override { transport_->adopt(); }
  /// Works on the batch where a channel to its peer is ready and idle, and the batch uses no more
  /// than one.
  bool read_now(read_batch& batch, clock::time_point now, clock::duration at_most) override;
  bool poll(clock::time_point now) override;
  clock::duration rest(clock::duration at_most) override;
  bool idle() const noexcept override { return flights_.empty() && submitted_.empty(); }
  void wait(clock::duration at_most) override;
  void wake() noexcept override { events_.wake(); }
  int descriptor() const noexcept override { return events_.descriptor(); }
  void shutdown() override;
  data_plane_stats stats() const override { return published_.read(); }

  /// The number of connections, open or being opened.
  std::size_t channels() const noexcept { return channels_.size(); }

private:
  struct flight {
    batch_job job;
    channel_peer* peer = nullptr;
  };
  struct channel_ref {
    page_channel* channel;
    channel_peer* peer;
    bool in_flight = false; ///< The channel's id is in `in_flight_`.
    bool ready = false;     ///< The channel's id is in `ready_` or in `again_`.
  };

  channel_data_plane(const channel_plane_options& opts, std::unique_ptr<transport> over,
                     net::event_poll events);

  channel_peer* ready_peer(const read_batch& batch) const noexcept;
  bool run_now(page_channel& channel, const batch_job& job, clock::duration at_most);
  bool take_submitted();
  void start(read_batch& batch);
  channel_peer* peer_of(const peer_endpoint& endpoint);
  void complete(flight& which, page_status undecided);
  /// Takes a job off its channels, which are destroyed, and off its peer's queue, and completes the
  /// job.
  void cut_off(flight& which, page_status undecided);

  bool take_events();
  void make_ready(std::uint64_t id, std::deque<std::uint64_t>& in);
  bool run_channels(std::size_t& bytes_left);
  void take_in_flight();
  bool lose_channels();
  void lose(std::uint64_t id);
  bool arm_in_flight();
  void run_channel(std::uint64_t id, std::size_t& bytes_left, bool& moved);

  void assign(channel_peer& peer);
  bool give_channels(channel_peer& peer, batch_job& job);
  page_channel* open_channel(channel_peer& peer);
  void job_decided(channel_peer& peer, batch_job& job);
  void on_broken(channel_peer& peer, page_channel& channel);
  bool retry(channel_peer& peer, batch_job& job, const std::vector<sub_request>& lost);
  std::vector<sub_request> drop(channel_peer& peer, page_channel& channel);
  void take_channels_of(channel_peer& peer, const batch_job& job);
  void drop_idle_channels(channel_peer& peer);

  bool expire_batches();
  bool end_connections();
  void expire_channels();
  void forget_peers();
  clock::time_point next_timer() const noexcept;

  const channel_plane_options options_;
  const std::unique_ptr<transport> transport_;
  net::event_poll events_;
  /// Events that `wait` took from epoll, for the next `poll`.
  std::span<const epoll_event> collected_;
  clock::time_point now_{}; ///< The time that the latest `poll` was given.
  clock::time_point housekeeping_at_{};
  bool shut_down_ = false;

  std::deque<read_batch*> submitted_;
  std::unordered_map<incarnation, std::unique_ptr<channel_peer>> peers_;
  /// Batches that were started and have not finished, by job id.
  std::unordered_map<std::uint64_t, std::unique_ptr<flight>> flights_;
  std::set<std::pair<clock::time_point, std::uint64_t>> deadlines_; ///< Deadlines of `flights_`.
  std::unordered_map<std::uint64_t, channel_ref> channels_; ///< All channels, by channel id.
  /// Ids of channels that may have something to do, the next first.
  std::deque<std::uint64_t> ready_;
  std::deque<std::uint64_t> again_; ///< Ids of channels that had their turn and have more to do.
  /// Ids of channels whose device works; each poll steps all of them.
  std::vector<std::uint64_t> in_flight_;
  /// Closed channels that are not destroyed yet: `end_connections` ends a few sockets per poll.
  std::vector<std::unique_ptr<page_channel>> closed_;
  /// What `read_now` uses for its next batch; null: the one before became one of `flights_`.
  std::unique_ptr<flight> spare_;
  std::uint32_t turns_since_look_ = 0;
  std::uint64_t next_id_ = 1;
  data_plane_stats stats_;

  published_stats published_; ///< Copy of `stats_` for other threads, which call `stats()`.
};

} // namespace peercache::rdma
