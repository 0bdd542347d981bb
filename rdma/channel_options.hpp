#pragma once

#include "common/circuit_breaker.hpp"
#include "common/limits.hpp"

#include <chrono>
#include <cstdint>

namespace peercache::rdma {

class peer_counters;

/// Options of a reader's data plane that are the same over TCP and over verbs.
struct channel_plane_options {
  std::uint32_t channels_per_peer_max = limits::channels_per_peer_max;
  /// Most batches that the plane holds; further ones are refused.
  std::uint32_t batches_max = 4096;
  std::uint32_t peers_max = limits::members_max;
  /// Longest time from the connect to the answer to the hello.
  std::chrono::milliseconds connect_timeout{500};
  std::chrono::milliseconds idle_timeout{60'000};
  circuit_breaker::options breaker;
  /// Counts by peer, which the plane updates; outlives the plane. Null: the plane counts nothing by
  /// peer, as over verbs, where the channels count.
  peer_counters* counters = nullptr;
};

} // namespace peercache::rdma
