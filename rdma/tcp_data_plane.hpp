#pragma once

#include "rdma/batch_job.hpp"
#include "rdma/data_plane.hpp"
#include "rdma/published_stats.hpp"
#include "rdma/tcp_channel.hpp"
#include "rdma/tcp_options.hpp"
#include "rdma/tcp_peer.hpp"

#include <memory>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

namespace peercache::rdma {

/// The data plane over TCP: asks page servers (tcp_page_server) for pages and receives them
/// straight into the parts.
///
/// Each connection carries one batch at a time, so that a batch which times out takes down no
/// other's connection; batches beyond `channels_per_peer_max` wait. Large batches use several
/// connections.
///
/// Threads: as data_plane says; starts none. Time: `poll`'s argument; `wait` alone looks at the
/// clock. Errors: connection refused, lost, or no room: `unreachable`; the address is another
/// process's: `owner_gone`; the peer failed repeatedly: `breaker_open`; too many batches or peers:
/// `refused`. A connection that breaks fails what rode on it; if it had served before and broke
/// without a word, the peer had closed it while it was idle, and its requests go out once more on a
/// new connection. Breaker: connect failures, and batches that ran to their deadline without a
/// single answer, count. Invariants: (1) when a batch finishes, no connection of it is open for
/// receiving into its memory; (2) every batch that was submitted finishes at the first `poll` after
/// its deadline, or earlier.
class tcp_data_plane final : public data_plane {
public:
  static result<std::unique_ptr<tcp_data_plane>> create(const tcp_data_plane_options& opts);
  ~tcp_data_plane() override;

  void submit(read_batch& batch) override;
  bool poll(clock::time_point now) override;
  void wait(clock::duration at_most) override;
  void wake() noexcept override { events_.wake(); }
  void shutdown() override;
  data_plane_stats stats() const override { return published_.read(); }

  /// Connections, open or being opened.
  std::size_t channels() const noexcept { return channels_.size(); }

private:
  struct flight {
    batch_job job;
    tcp_peer* peer = nullptr;
  };
  struct channel_ref {
    tcp_channel* channel;
    tcp_peer* peer;
  };

  tcp_data_plane(const tcp_data_plane_options& opts, event_poll events);

  bool take_submitted();
  void start(read_batch& batch);
  tcp_peer* peer_of(const peer_endpoint& endpoint);
  void complete(flight& which, page_status undecided);

  bool take_events();
  bool run_channels();
  void run_channel(std::uint64_t id, std::vector<std::uint64_t>& again, bool& moved);

  void assign(tcp_peer& peer);
  bool give_channels(tcp_peer& peer, batch_job& job);
  tcp_channel* open_channel(tcp_peer& peer);
  void job_decided(tcp_peer& peer, batch_job& job);
  void on_broken(tcp_peer& peer, tcp_channel& channel);
  bool retry(tcp_peer& peer, batch_job& job, const std::vector<sub_request>& lost);
  std::vector<sub_request> drop(tcp_peer& peer, tcp_channel& channel);
  void drop_channels_of(tcp_peer& peer, const batch_job& job);
  void drop_idle_channels(tcp_peer& peer);

  bool expire_batches();
  void expire_channels();
  void forget_peers();
  clock::time_point next_timer() const noexcept;

  const tcp_data_plane_options options_;
  event_poll events_;
  std::span<const epoll_event> collected_; ///< By `wait`, for the next `poll`.
  clock::time_point now_{};                ///< `poll`'s.
  clock::time_point housekeeping_at_{};
  bool shut_down_ = false;

  std::vector<read_batch*> submitted_;
  std::unordered_map<incarnation, std::unique_ptr<tcp_peer>> peers_;
  std::unordered_map<std::uint64_t, std::unique_ptr<flight>> flights_; ///< By job id.
  std::set<std::pair<clock::time_point, std::uint64_t>> deadlines_;    ///< Of the flights.
  std::unordered_map<std::uint64_t, channel_ref> channels_;            ///< By channel id.
  std::vector<std::uint64_t> ready_; ///< Channels that may have something to do.
  std::uint64_t next_id_ = 1;
  data_plane_stats stats_;

  published_stats published_; ///< Any thread.
};

} // namespace peercache::rdma
