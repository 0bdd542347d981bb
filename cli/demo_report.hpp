#pragma once

#include "client/cache_client.hpp"
#include "common/page_status.hpp"

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace peercache::cli {

/// What the replay of a trace met. A hit is a page inside the leading run of its request that was
/// got with the right bytes; each other page is a miss with one reason.
struct demo_counts {
  std::uint64_t requests = 0;
  std::uint64_t pages = 0; ///< References: hits and misses.
  std::uint64_t hits = 0;
  std::array<std::uint64_t, page_status_count> misses{};
  std::uint64_t misses_behind_a_miss =
      0; ///< Was there, but an earlier page of its request was not.
  std::uint64_t wrong_bytes = 0;
  std::uint64_t wrong_pages = 0;
  std::uint64_t pages_put = 0;
  std::array<std::uint64_t, page_status_count>
      puts_skipped{}; ///< By reason: duplicate, no_space, …
  std::uint64_t puts_unpublished = 0;

  std::uint64_t misses_total() const;
  double hit_rate() const;
};

/// Everything that the demo says at its end.
struct demo_report {
  demo_counts counts;
  std::array<std::uint64_t, client::page_origin_count> bytes_by_origin{};
  std::uint64_t nodes = 0;
  std::uint64_t page_bytes = 0;
  std::uint64_t pool_bytes = 0; ///< Of each node.
  std::uint64_t evictions = 0;
  double elapsed_s = 0;
  double lru_hit_rate = 0;       ///< One LRU cache of the same total size, simulated.
  double unlimited_hit_rate = 0; ///< Room for everything: what nobody can exceed.
  std::string trace;
  std::string data_plane; ///< What the clients took, and why.

  std::uint64_t disk_bytes = 0; ///< Of each node; 0: no disk tier.
  std::uint64_t on_disk = 0;    ///< Pages, all nodes together, at the end of the replay.
  /// After all nodes were killed and started again.
  struct second_life {
    std::uint64_t found_again = 0; ///< Of the pages asked for in the trace, each once.
    demo_counts counts;            ///< The trace once more.
    std::uint64_t wrong_bytes = 0; ///< In both.
    double share_found(std::uint64_t on_disk) const;
  };
  std::optional<second_life> restarted;

  double ratio_to_lru() const;
  nlohmann::json to_json() const;
  std::string to_text() const;
};

} // namespace peercache::cli
