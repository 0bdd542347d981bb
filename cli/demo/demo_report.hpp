#pragma once

#include "client/cache_client.hpp"
#include "common/page_status.hpp"

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace peercache::cli {

/// The results of replaying a trace. A hit is a page inside the leading run of its request that
/// came with the right bytes; each other page is a miss with one reason.
struct demo_counts {
  std::uint64_t requests = 0;
  std::uint64_t pages = 0; ///< References to pages: hits and misses together.
  std::uint64_t hits = 0;
  std::array<std::uint64_t, page_status_count> misses{};
  /// Pages that the cache had, but that came behind a miss of their request.
  std::uint64_t misses_behind_a_miss = 0;
  std::uint64_t wrong_bytes = 0;
  std::uint64_t wrong_pages = 0;
  std::uint64_t pages_put = 0;
  /// Pages that were not stored, by reason: duplicate, no_space, …
  std::array<std::uint64_t, page_status_count> puts_skipped{};
  std::uint64_t puts_unpublished = 0;

  std::uint64_t misses_total() const;
  double hit_rate() const;
};

/// All figures that the demo prints at its end.
struct demo_report {
  demo_counts counts;
  std::array<std::uint64_t, page_origin_count> bytes_by_origin{};
  std::uint64_t nodes = 0;
  std::uint64_t page_bytes = 0;
  std::uint64_t pool_bytes = 0; ///< Bytes of each node's pool.
  std::uint64_t evictions = 0;
  double elapsed_s = 0;
  double lru_hit_rate = 0; ///< Hit rate of one simulated LRU cache as large as all pools together.
  /// Hit rate of a simulated cache with room for everything: no cache can have more.
  double unlimited_hit_rate = 0;
  std::string trace;
  std::string data_plane; ///< The data plane that the clients took, and why.

  std::uint64_t disk_bytes = 0; ///< Bytes of each node's disk tier; 0: no disk tier.
  /// Pages on the disks of all nodes together, at the end of the replay.
  std::uint64_t on_disk = 0;
  /// The figures after all nodes were killed and started again.
  struct second_life {
    std::uint64_t found_before = 0; ///< Pages of the trace that were found before the kill.
    std::uint64_t found_again = 0;  ///< Pages of the trace that were found after the restart.
    demo_counts counts;             ///< The counts of a second replay of the trace.
    /// Wrong bytes in all pages that were read, before and after the restart together.
    std::uint64_t wrong_bytes = 0;
    double share_found() const;
  };
  std::optional<second_life> restarted;

  double ratio_to_lru() const;
  nlohmann::json to_json() const;
  std::string to_text() const;
};

} // namespace peercache::cli
