#pragma once

#include "rdma/data_plane.hpp"

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

namespace peercache::rdma {

/// One way for a batch to travel: a rail of this host, or TCP.
/// Threads: any. Ownership: the data plane behind `submit` and the flag outlive it.
struct read_lane {
  enum class kind : std::uint8_t { rail, tcp };

  kind how = kind::tcp;
  std::string name; ///< "mlx5_0/1" or "tcp".
  std::function<void(read_batch&)> submit;
  const std::atomic<bool>* usable = nullptr; ///< Null: always.
  std::int32_t numa_node = -1;               ///< The device's NUMA node; -1: unknown.
  std::atomic<std::uint64_t> outstanding_bytes{0};
};

} // namespace peercache::rdma
