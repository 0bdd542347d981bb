#pragma once

#include "handoff/receiver_rooms.hpp"
#include "rdma/data_plane.hpp"
#include "rdma/striped_read.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace peercache::client {

/// The reads of a decode worker's rooms, or of a transfer worker's transfers, that its data planes
/// carry out. Threads: the worker's; `on_progress` is called from the data planes' threads and must
/// not block. Ownership: lanes are lent, and outlive this object; a read's parts are lent until
/// `take_finished` returns the read, and nothing writes to them after that.
class room_reads {
public:
  room_reads(std::span<const std::unique_ptr<rdma::read_lane>> lanes,
             std::function<void()> on_progress)
      : lanes_(lanes), listener_(std::move(on_progress)) {}

  /// Begins the read that was ordered; does not block.
  void start(handoff::read_order order, const rdma::peer_endpoint& from,
             rdma::clock::time_point deadline);
  /// Asks the data planes to end early the reads of this turn of a room, or of this transfer.
  void cancel(handoff::join_id turn);

  struct finished {
    handoff::read_id id;
    handoff::read_end end = handoff::read_end::good;
    std::uint64_t bytes = 0;
    std::string reason; ///< Why the read is not good.
  };
  /// Returns reads that have ended; nothing can still write to their parts.
  std::vector<finished> take_finished();

  std::size_t size() const noexcept { return reads_.size(); }

private:
  class listener final : public rdma::batch_listener {
  public:
    explicit listener(std::function<void()> tell) : tell_(std::move(tell)) {}
    void on_complete() noexcept override { tell_(); }

  private:
    std::function<void()> tell_;
  };
  struct read {
    handoff::join_id turn;
    std::uint64_t bytes = 0;
    rdma::read_batch batch;
    std::unique_ptr<rdma::striped_read> striped;
  };

  std::span<const std::unique_ptr<rdma::read_lane>> lanes_;
  listener listener_;
  std::map<handoff::read_id, std::unique_ptr<read>> reads_;
};

} // namespace peercache::client
