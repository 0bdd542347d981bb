#pragma once

#include "common/circuit_breaker.hpp"
#include "common/limits.hpp"

#include <chrono>
#include <cstdint>

namespace peercache::rdma {

/// The reading side, whatever carries the bytes.
struct channel_plane_options {
  std::uint32_t channels_per_peer_max = limits::channels_per_peer_max;
  std::uint32_t batches_max = 4096; ///< Batches in the plane's hands; more are refused.
  std::uint32_t peers_max = limits::members_max;
  std::chrono::milliseconds connect_timeout{500}; ///< Up to the answer to the hello.
  std::chrono::milliseconds idle_timeout{60'000};
  circuit_breaker::options breaker;
};

} // namespace peercache::rdma
