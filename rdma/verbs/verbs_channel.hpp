#pragma once

#include "rdma/page_channel.hpp"
#include "rdma/verbs/bounce_memory.hpp"
#include "rdma/verbs/destination_memory.hpp"
#include "rdma/verbs/entry_reads.hpp"
#include "rdma/verbs/payload_reads.hpp"
#include "rdma/verbs/queue_pair.hpp"
#include "rdma/verbs/rail_counters.hpp"
#include "rdma/verbs/verbs_handshake.hpp"
#include "rdma/verbs/verbs_options.hpp"

#include <deque>
#include <optional>
#include <vector>

namespace peercache::rdma {

/// State that all channels of one rail share. Threads: the rail's.
struct verbs_rail {
  const verbs_data_plane_options& options;
  verbs::device& device;
  destination_memory& destinations;
  bounce_memory& bounce;
  rail_counters& counters;
  /// Whether some channel's completion queue was armed, so that the completion channel may become
  /// readable.
  bool armed = false;
};

/// The queue pair of a channel, in state INIT, and the completion queue that it was made with.
struct verbs_ends {
  verbs::completion_queue completions;
  verbs::queue_pair pair; ///< The queue pair; destroyed before its completion queue.
  std::uint32_t send_depth = 0;
  std::uint32_t sge = 0;

  static result<verbs_ends> create(const verbs_rail& rail, verbs::completion_channel* channel);
};

/// One reliable connection that READs a peer's pool: payloads straight into the pages' parts, then
/// the slots' entries behind a fence, which say whether the bytes are the page that the record
/// named (docs/flows.md, "Get over verbs"). Of a batch that its caller judges, nothing but the
/// payloads is READ. A control connection belongs to the channel; when this
/// connection ends, the peer or its queue pair is gone. Threads, ownership, errors: as page_channel
/// says; any completion with an error breaks the channel. Invariants: (1) no more work requests
/// outstanding than the queues hold; (2) a page that the plane judges becomes a hit only by an
/// entry that was READ after the page's last byte had arrived.
class verbs_channel final : public page_channel {
public:
  verbs_channel(std::uint64_t id, verbs_rail& rail, net::stream_socket control, verbs_ends ends,
                const verbs_hello& greeting, clock::time_point now);
  ~verbs_channel() override;

  bool carries_nothing() const noexcept override { return !busy_; }
  void on_events(std::uint32_t events) noexcept override { handshake_.on_events(events); }
  progress step(std::size_t& bytes_left) override;
  bool arm() noexcept override;
  std::vector<sub_request> close() noexcept override;

private:
  /// Moves the handshake on the control connection on. False when the channel is broken.
  bool run_handshake();
  bool connect();

  /// Begins the next sub-request of the job. False when too few bounce blocks are free yet.
  bool begin_sub();
  /// Posts as many READs as fit. False when the device refuses one.
  bool post();
  /// Fills the next doorbell with payload READs, up to `room` work requests. Returns their number.
  std::uint32_t chain_payloads(std::uint32_t room);
  std::uint32_t chain_entries(std::uint32_t count, std::uint32_t room);
  bool ring_doorbell(std::uint32_t count);
  ibv_send_wr& request(std::uint32_t index, std::uint64_t remote, std::uint32_t rkey) noexcept;

  /// Takes the pending completions. False when one of them is an error.
  bool reap(bool& moved);
  void retire(std::uint64_t up_to) noexcept;
  /// Whether entries are READ for the job's pages.
  bool reads_entries() const noexcept { return job_->batch->judged && !rail_.options.payload_only; }
  void judge() noexcept;
  void end_sub() noexcept;

  /// A copy to make out of a bounce block when the block's READ is done.
  struct bounced {
    std::uint64_t request; ///< Number of the work request that READs into the block.
    std::uint32_t block;
    std::uint32_t bytes;
    std::byte* to;
  };

  verbs_rail& rail_;
  verbs_ends ends_;
  verbs_handshake handshake_;
  const queue_pair_end own_;
  /// Counts of this channel's peer; null before the peer is connected.
  peer_counts* peer_ = nullptr;
  payload_reads::limits limits_; ///< Limits of a READ that both ends agreed on.

  bool busy_ = false; ///< Whether the sub-request `sub_` is on its way.
  sub_request sub_;
  payload_reads payloads_;
  entry_reads entries_;
  bool payloads_posted_ = false;
  /// Whether the first entry READ of the sub-request, which carries the fence, is posted.
  bool fenced_ = false;
  /// The bounce block into which entries are READ; empty between sub-requests, and where no entries
  /// are READ.
  std::optional<std::uint32_t> landing_;

  std::uint64_t posted_ = 0;  ///< Number of the last work request that was posted.
  std::uint64_t retired_ = 0; ///< Number of the last work request that is done.
  std::deque<bounced> bounced_;
  std::size_t copied_bytes_ = 0; ///< Bytes copied out of bounce blocks in this step.
  /// The work requests of one doorbell; each names its pieces in `sges_` and the request after it.
  std::vector<ibv_send_wr> requests_;
  std::vector<ibv_sge> sges_;
};

} // namespace peercache::rdma
