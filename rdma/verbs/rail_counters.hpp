#pragma once

#include "rdma/peer_counters.hpp"

#include <array>
#include <atomic>
#include <cstdint>

namespace peercache::rdma {

/// Counts of one rail of a reader since the process began. Threads: the rail's thread counts, any
/// thread may read.
struct rail_counters {
  /// Number of `ibv_wc_status` values that are counted apart; higher ones share the last place.
  static constexpr std::size_t wc_statuses = 24;
  using counter = std::atomic<std::uint64_t>;

  counter payload_reads{0}; ///< Work requests that READ payloads.
  counter payload_bytes{0};
  counter area_reads{0}; ///< Work requests that READ what the caller judges; none is a payload's.
  counter area_bytes{0};
  counter entry_reads{0}; ///< Work requests that READ slot entries.
  counter fences{0};      ///< Fenced READs: the first entry READ of each sub-request.
  counter doorbells{0};
  counter bounced_bytes{0};
  counter channels{0};     ///< Channels that are open now.
  counter refused_work{0}; ///< Work requests that the device did not take.
  /// Completions with an error, by status. A channel breaks at the first one, so the flushes behind
  /// it are not counted.
  std::array<counter, wc_statuses> errors{};
  std::atomic<bool> usable{true};
  peer_counters peers;

  /// Text of an index of `errors`, like "remote access error".
  static const char* status_name(std::size_t status) noexcept;
  /// Adds to a counter. Only the rail's thread may call it: with one writer no locked addition is
  /// needed.
  static void add(counter& which, std::uint64_t count) noexcept {
    which.store(which.load(std::memory_order_relaxed) + count, std::memory_order_relaxed);
  }
};

} // namespace peercache::rdma
