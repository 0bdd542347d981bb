#pragma once

#include "rdma/data_plane.hpp"

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

namespace peercache::rdma {

/// One way for a batch to travel: a rail of this host, or TCP.
/// Threads: any. Ownership: the data plane behind `submit` and the flag `usable` outlive the lane.
struct read_lane {
  enum class kind : std::uint8_t { rail, tcp };

  kind how = kind::tcp;
  std::string name; ///< Name of the lane: "tcp", or a rail's like "mlx5_0/1".
  std::function<void(read_batch&)> submit;
  /// Submits a batch that takes microseconds, on which the calling thread may work itself
  /// (`data_plane_loop::read_now`); null where the lane has no such way.
  std::function<void(read_batch&)> read_now;
  std::function<void(const read_batch&)> cancel; ///< Cancels a batch as `submit_ring::cancel` does.
  /// Whether the rail can be used now; a null pointer means always.
  const std::atomic<bool>* usable = nullptr;
  std::int32_t numa_node = -1; ///< NUMA node of the rail's device; -1 when unknown.
  std::atomic<std::uint64_t> outstanding_bytes{0};

  /// Submits a batch by `read_now`, or by `submit` where there is no `read_now`. As with `submit`,
  /// the caller waits for the batch afterwards.
  void submit_short(read_batch& batch) const { read_now ? read_now(batch) : submit(batch); }
};

} // namespace peercache::rdma
