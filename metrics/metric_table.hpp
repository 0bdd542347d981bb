#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace peercache::metrics {

/// Every metric of a node. The order is that of `metric_table()` and of a scrape.
enum class metric : std::uint8_t {
  build_info,
  uptime_seconds,
  ready,
  tls,
  insecure,
  pool_bytes_capacity,
  pool_bytes_used,
  pool_pages,
  pool_pages_filling,
  pool_puts_total,
  requests_total,
  pages_total,
  bytes_total,
  hits_total,
  misses_total,
  op_seconds,
  evictions_total,
  evicted_bytes_total,
  adopted_pages_total,
  adopted_refused_total,
  clears_total,
  cleared_pages_total,
  cleared_spaces,
  clear_nodes_missing,
  directory_records,
  directory_record_bytes,
  directory_bytes,
  directory_owners,
  directory_publishes_total,
  directory_withdraws_total,
  directory_lookups_total,
  directory_foreign_lookups_total,
  directory_datagrams_total,
  directory_republished_total,
  directory_handed_over_total,
  repair_passes_total,
  repair_bytes_total,
  repair_differing_ranges_total,
  repair_records_total,
  mirrored_pages_total,
  mirrored_bytes,
  holds_total,
  holds_expired_total,
  held_pages,
  held_bytes,
  draining,
  view_refreshes_total,
  shard_lookups_total,
  shard_reads_total,
  lookup_datagrams_total,
  members,
  view_term,
  view_version,
  view_masters_lost,
  members_gone,
  cluster_faults,
  is_master,
  is_leader,
  links,
  sessions,
  gpu_keys,
  gpu_reporters,
  gpu_refused_total,
  gpu_untold_total,
  data_connections,
  data_pages_sent_total,
  data_bytes_sent_total,
  breakers_open,
  data_plane_info,
  tcp_peer_reads_total,
  tcp_peer_bytes_total,
  tcp_peer_errors_total,
  rdma_reads_total,
  rdma_read_bytes_total,
  rdma_bounced_bytes_total,
  rdma_errors_total,
  rdma_channels,
  rdma_peer_reads_total,
  rdma_peer_bytes_total,
  rdma_peer_errors_total,
  rdma_rail_serving,
  rdma_readers,
  rdma_region_bytes,
  rdma_chunks_failed,
  rdma_windows_failed_total,
  disk_on,
  disk_info,
  disk_scanned_ratio,
  disk_bytes_capacity,
  disk_bytes,
  disk_records,
  disk_record_bytes,
  disk_files,
  disk_queue_bytes,
  disk_queue_pages,
  disk_writes_total,
  disk_written_bytes_total,
  disk_skips_total,
  disk_reads_total,
  disk_read_bytes_total,
  disk_errors_total,
  disk_checksum_failures_total,
  disk_op_seconds,
  disk_evictions_total,
  disk_expirations_total,
  disk_scrubbed_bytes_total,
  disk_breaker_open,
  disk_breaker_opened_total,
  disk_read_only,
  disk_incident,
  disk_recovered_records,
  disk_dropped_records,
  disk_promotes_total,
  disk_warmed_total,
  disk_promotes_on_their_way,
  handoff_rooms,
  handoff_peers,
  handoff_rooms_total,
  handoff_failures_total,
  handoff_last_failure_seconds,
  handoff_bytes_total,
  handoff_reads_total,
  handoff_seconds,
  series_refused_total,
};

inline constexpr std::size_t metric_count =
    static_cast<std::size_t>(metric::series_refused_total) + 1;

enum class metric_type : std::uint8_t { counter, gauge, histogram };

/// "counter", "gauge", "histogram".
std::string_view to_string(metric_type type) noexcept;

/// A label of a metric: its name, and the words it may have, or no words when they are only known
/// at run time (a peer's name).
struct label_info {
  std::string_view name;
  std::span<const std::string_view> words;
};

inline constexpr std::size_t labels_per_metric_max = 2;

/// A row of `metric_table()`.
struct metric_info {
  metric id;
  std::string_view name; ///< The scraped name, with the prefix `peercache_`.
  metric_type type;
  /// At most `labels_per_metric_max`. A histogram's labels have words that the table knows: each
  /// series of a histogram takes 15 KiB.
  std::span<const label_info> labels;
  std::string_view help; ///< A sentence with its full stop.
};

/// The one table that the registry, the documentation and the tests read.
/// Threads: constant data.
std::span<const metric_info> metric_table() noexcept;

const metric_info& info_of(metric id) noexcept;

/// The metric whose scraped name this is; null when there is none.
const metric_info* find_metric(std::string_view name) noexcept;

/// The text of docs/metrics.md; `peercache_metrics_docs` writes it and a test compares it.
std::string metrics_document();

/// Bounds of every latency histogram in a scrape: powers of two from 1 µs to 17 s, at which the
/// log-linear buckets count exactly.
std::span<const std::uint64_t> histogram_bounds_ns() noexcept;

/// Label words of the user's operations, for `op`.
inline constexpr std::array<std::string_view, 5> op_words{"set", "get", "exists", "remove",
                                                          "prefetch"};

/// Label words of what became of holds that local clients asked for, for `result`.
inline constexpr std::array<std::string_view, 5> hold_words{"held", "refused", "gone", "on_disk",
                                                            "unanswered"};

/// Label words of how local clients' look-ups that read a shard's memory ended, for `result`.
inline constexpr std::array<std::string_view, 3> shard_lookup_words{"own", "read", "asked"};
/// Label words of what became of look-ups that came to a node by datagram, for `result`.
inline constexpr std::array<std::string_view, 4> served_datagram_words{"answered", "over_tcp",
                                                                       "refused", "paced"};
/// Label words of what became of datagrams of local clients' look-ups, for `result`.
inline constexpr std::array<std::string_view, 3> lookup_datagram_words{"sent", "over_tcp",
                                                                       "dropped"};

/// Label words of the disk tier's operations, for `op`.
inline constexpr std::array<std::string_view, 2> disk_op_words{"write", "read"};
/// Label words of the reasons why a page is not written to disk, for `reason`: those of
/// storage::write_skip but "none".
inline constexpr std::array<std::string_view, 8> disk_skip_words{
    "queue_full", "breaker_open", "read_only",    "on_disk",
    "closed",     "evicted",      "other_on_way", "no_room"};

} // namespace peercache::metrics
