#pragma once

#include "rdma/peer_counters.hpp"

#include <array>
#include <atomic>
#include <cstdint>

namespace peercache::rdma {

/// Counts of one rail of a reader, since the start. Threads: the rail's counts, any may look.
struct rail_counters {
  /// Values of `ibv_wc_status`; higher ones are counted in the last place.
  static constexpr std::size_t wc_statuses = 24;
  using counter = std::atomic<std::uint64_t>;

  counter payload_reads{0}; ///< Work requests.
  counter payload_bytes{0};
  counter entry_reads{0}; ///< READs of slot entries.
  counter fences{0};      ///< Round trips of validation.
  counter doorbells{0};
  counter bounced_bytes{0};
  counter channels{0};     ///< Open now.
  counter refused_work{0}; ///< Work requests that the device did not take.
  /// Completions by status, flushes but the first left out.
  std::array<counter, wc_statuses> errors{};
  std::atomic<bool> usable{true};
  peer_counters peers;

  /// "remote access error": the word for an index of `errors`.
  static const char* status_name(std::size_t status) noexcept;
  /// Adds to a count, in the rail's thread: with one writer no locked addition is needed.
  static void add(counter& which, std::uint64_t count) noexcept {
    which.store(which.load(std::memory_order_relaxed) + count, std::memory_order_relaxed);
  }
};

} // namespace peercache::rdma
