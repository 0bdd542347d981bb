#pragma once

#include "client/values/client_stats.hpp"
#include "client/values/pages.hpp"
#include "common/page_origin.hpp"
#include "common/page_status.hpp"
#include "metrics/latency_histogram.hpp"
#include "metrics/samples.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <span>

namespace peercache::client {

/// Totals of one client, counted by every caller thread. Additions are relaxed, because no number
/// depends on another.
struct counters {
  using count = std::atomic<std::uint64_t>;

  count directory_messages{0};
  /// Questions that were answered from the memory of this host's shard; those that were answered by
  /// READs of another's, and their READs; those that were asked after all.
  count lookups_own{0}, lookups_read{0}, shard_reads{0}, lookups_asked_after_all{0};
  /// Questions of look-ups that were sent by datagram, those of them that were asked over TCP
  /// afterwards, and datagrams that were nobody's answer, or a late one.
  count datagrams_sent{0}, datagrams_over_tcp{0}, datagrams_dropped{0};
  count location_cache_hits{0};
  count retries{0};
  count view_refreshes{0};
  count set_bytes{0};
  std::array<count, page_status_count> get_status{}, set_status{}, exists_status{};
  std::array<count, page_origin_count> get_hits{}, get_bytes{};
  std::array<count, hold_fate_count> holds{};
  metrics::latency_histogram get_latency, set_latency, exists_latency;

  void count_get(std::span<const page_result> results) noexcept;
  /// Counts results by status, with one addition for each status that occurs.
  static void count_statuses(std::span<const page_result> results,
                             std::array<count, page_status_count>& to) noexcept;
  void count_holds(const std::array<std::uint64_t, hold_fate_count>& seen) noexcept;
  client_stats stats() const;
  /// Returns the totals by metric, as this host's node is told them.
  metrics::samples samples() const;
};

} // namespace peercache::client
