#pragma once

#include "common/circuit_breaker.hpp"
#include "rdma/batch_job.hpp"
#include "rdma/channel_options.hpp"
#include "rdma/page_channel.hpp"
#include "rdma/peer_counters.hpp"

#include <deque>
#include <memory>
#include <vector>

namespace peercache::rdma {

/// One peer as a reader sees it: its connections, the batches that wait for one of them, and the
/// circuit breaker that says whether the peer may be asked. Bookkeeping only; the plane decides.
/// Threads: none; the plane's owner serializes. Invariants: (1) at most `channels_per_peer_max`
/// channels; (2) a waiting job has no channel.
struct channel_peer {
  channel_peer(const peer_endpoint& at, const channel_plane_options& opts);

  peer_endpoint endpoint;
  circuit_breaker breaker;
  std::vector<std::unique_ptr<page_channel>> channels;
  std::deque<batch_job*> waiting;
  std::uint32_t jobs = 0; ///< Jobs that wait for a channel or have one.
  clock::time_point used_at{};
  peer_counts* counts; ///< Counts under the peer's name; null: nobody counts by peer.

  page_channel* idle_channel() noexcept;
  bool carries(const batch_job& job) const noexcept;
  void forget_waiting(const batch_job& job) noexcept;
  /// Counts a channel that could not be made, or was lost.
  void count_error() noexcept;
  /// Counts the channels of a job, which are about to be dropped because the peer is too slow.
  void count_late(const batch_job& job) noexcept;
};

} // namespace peercache::rdma
