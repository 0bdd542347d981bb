#include "metrics/metric_table.hpp"

#include "common/assert.hpp"
#include "common/fault_ids.hpp"
#include "common/page_origin.hpp"
#include "common/page_status.hpp"
#include "metrics/process_metrics.hpp"

#include <algorithm>
#include <map>
#include <vector>

namespace peercache::metrics {

namespace {

using enum metric_type;

/// Label words of the reasons why a start drops records of the disk tier.
constexpr std::array<std::string_view, 4> dropped_words{"torn", "foreign", "replaced", "corrupt"};
/// The words of `actors::to_string(disk_incidents::kind)`.
constexpr std::array<std::string_view, 7> incident_words{"failing", "full", "hung",       "slow",
                                                         "rotten",  "off",  "other_store"};
constexpr std::array<std::string_view, 2> clear_words{"certain", "uncertain"};
constexpr std::array<std::string_view, 2> tier_words{"memory", "disk"};
constexpr std::array<std::string_view, 2> repair_words{"published", "withdrawn"};
constexpr std::array<std::string_view, 2> mirror_words{"mirrored", "refused"};
constexpr std::array<std::string_view, 2> side_words{"prefill", "decode"};
constexpr std::array<std::string_view, 2> room_words{"succeeded", "failed"};
constexpr std::array<std::string_view, 3> read_words{"good", "refused", "failed"};
/// The words of `handoff::to_string(room_state)`.
constexpr std::array<std::string_view, 5> room_state_words{
    "failed", "bootstrapping", "waiting_for_input", "transferring", "success"};
/// The words of `handoff::to_string(failure_kind)`.
constexpr std::array<std::string_view, 9> failure_words{"aborted",      "another_rank", "memory",
                                                        "peer_aborted", "peer_lost",    "misfit",
                                                        "read",         "protocol",     "lease"};
constexpr std::array<std::string_view, 5> promote_words{"promoted", "joined", "in_pool", "missed",
                                                        "refused"};

constexpr auto fault_words = [] {
  std::array<std::string_view, fault_ids::all.size()> words;
  std::copy(fault_ids::all.begin(), fault_ids::all.end(), words.begin());
  return words;
}();

std::vector<std::string_view> status_words(bool misses_only) {
  std::vector<std::string_view> words;
  for (std::size_t i = 0; i < page_status_count; ++i) {
    const auto status = static_cast<page_status>(i);
    if (status != page_status::pending && !(misses_only && is_success(status)))
      words.push_back(to_string(status));
  }
  return words;
}

/// The labels that the table's rows point to; built once, because the statuses' words are
/// functions of common/page_status.hpp.
struct label_sets {
  std::vector<std::string_view> results = status_words(false);
  std::vector<std::string_view> reasons = status_words(true);
  label_info op{"op", op_words};
  label_info source{"source", page_source_words};
  std::array<label_info, 2> op_result{op, label_info{"result", results}};
  std::array<label_info, 2> op_source{op, source};
  std::array<label_info, 1> only_op{op};
  std::array<label_info, 1> only_source{source};
  std::array<label_info, 1> reason{label_info{"reason", reasons}};
  std::array<label_info, 1> version{label_info{"version", {}}};
  std::array<label_info, 1> plane{label_info{"choice", {}}};
  std::array<label_info, 1> rail{label_info{"rail", {}}};
  std::array<label_info, 2> rail_status{label_info{"rail", {}}, label_info{"status", {}}};
  std::array<label_info, 1> peer{label_info{"peer", {}}};
  std::array<label_info, 2> store_io{label_info{"store", {}}, label_info{"io", {}}};
  std::array<label_info, 1> disk_op{label_info{"op", disk_op_words}};
  std::array<label_info, 1> skip{label_info{"reason", disk_skip_words}};
  std::array<label_info, 1> dropped{label_info{"reason", dropped_words}};
  std::array<label_info, 1> incident{label_info{"kind", incident_words}};
  std::array<label_info, 1> fault{label_info{"id", fault_words}};
  std::array<label_info, 1> clear{label_info{"result", clear_words}};
  std::array<label_info, 1> tier{label_info{"tier", tier_words}};
  std::array<label_info, 1> repair{label_info{"action", repair_words}};
  std::array<label_info, 1> mirror{label_info{"result", mirror_words}};
  std::array<label_info, 1> hold{label_info{"result", hold_words}};
  std::array<label_info, 1> shard_lookup{label_info{"result", shard_lookup_words}};
  std::array<label_info, 1> served_datagram{label_info{"result", served_datagram_words}};
  std::array<label_info, 1> lookup_datagram{label_info{"result", lookup_datagram_words}};
  std::array<label_info, 1> promote{label_info{"result", promote_words}};
  label_info of_side{"side", side_words};
  std::array<label_info, 1> side{of_side};
  std::array<label_info, 2> side_state{of_side, label_info{"state", room_state_words}};
  std::array<label_info, 2> side_result{of_side, label_info{"result", room_words}};
  std::array<label_info, 2> side_failure{of_side, label_info{"reason", failure_words}};
  std::array<label_info, 2> worker_text{label_info{"worker", {}}, label_info{"text", {}}};
  std::array<label_info, 1> read_result{label_info{"result", read_words}};
};

const label_sets& sets() {
  static const label_sets built;
  return built;
}

using table = std::vector<metric_info>;

// clang-format off
void add_process(table& rows) {
  using enum metric;
  const label_sets& s = sets();
  rows.insert(rows.end(), {
      {build_info, "peercache_build_info", gauge, s.version, "Always 1; the label is the version that runs."},
      {uptime_seconds, "peercache_uptime_seconds", gauge, {}, "Seconds since the node started."},
      {ready, "peercache_ready", gauge, {}, "1 while /readyz answers 200, else 0."},
      {tls, "peercache_tls", gauge, {}, "1 when the node's ports are under TLS, else 0."},
      {insecure, "peercache_insecure", gauge, {}, "1 when others reach a port for pages that is not under TLS: other hosts, or on loopback, in a cluster of several nodes, all users of the host; else 0."},
  });
}

void add_node(table& rows) {
  using enum metric;
  const label_sets& s = sets();
  rows.insert(rows.end(), {
      {pool_bytes_capacity, "peercache_pool_bytes_capacity", gauge, {}, "Bytes of the page pool."},
      {pool_bytes_used, "peercache_pool_bytes_used", gauge, {}, "Bytes of the pool that hold pages, with what rounding costs."},
      {pool_pages, "peercache_pool_pages", gauge, {}, "Pages that can be read from the pool."},
      {pool_pages_filling, "peercache_pool_pages_filling", gauge, {}, "Pages that are reserved and not committed yet."},
      {pool_puts_total, "peercache_pool_puts_total", counter, {}, "Pages that were stored in the pool."},
      {requests_total, "peercache_requests_total", counter, s.only_op, "Calls of local clients; one call carries a batch of pages."},
      {pages_total, "peercache_pages_total", counter, s.op_result, "Pages of these calls, by their fate."},
      {bytes_total, "peercache_bytes_total", counter, s.op_source, "Page bytes moved for local clients, by where the bytes were."},
      {hits_total, "peercache_hits_total", counter, s.only_source, "Pages that a get delivered, by where they were."},
      {misses_total, "peercache_misses_total", counter, s.reason, "Pages that a get did not deliver, by the reason."},
      {op_seconds, "peercache_op_seconds", histogram, s.only_op, "How long a call took, from its entry to its return."},
      {evictions_total, "peercache_evictions_total", counter, {}, "Pages that left the pool to make room."},
      {evicted_bytes_total, "peercache_evicted_bytes_total", counter, {}, "Bytes of the pages that left the pool to make room."},
      {adopted_pages_total, "peercache_adopted_pages_total", counter, {}, "Pages of the process before that this one took over with its pool."},
      {adopted_refused_total, "peercache_adopted_refused_total", counter, {}, "Pages of the process before that were dropped because their bytes had another checksum."},
      {clears_total, "peercache_clears_total", counter, s.clear, "Clears that this node was asked for, by whether it was certain in time that no page of before is a hit anywhere."},
      {cleared_pages_total, "peercache_cleared_pages_total", counter, s.tier, "Pages that this node gave up because their space was cleared."},
      {cleared_spaces, "peercache_cleared_spaces", gauge, {}, "Spaces that this node knows to be cleared, but for those that a clear of all spaces has replaced."},
      {clear_nodes_missing, "peercache_clear_nodes_missing", gauge, {}, "Nodes that left without saying so and are not back; while there are any no clear is certain (peercache clear --gone NODE)."},
      {directory_records, "peercache_directory_records", gauge, {}, "Location records that this node's directory shard holds."},
      {directory_record_bytes, "peercache_directory_record_bytes", gauge, {}, "Memory of the shard divided by its records."},
      {directory_bytes, "peercache_directory_bytes", gauge, {}, "Memory that the shard takes."},
      {directory_owners, "peercache_directory_owners", gauge, {}, "Nodes whose shards keep the records of one key."},
      {directory_publishes_total, "peercache_directory_publishes_total", counter, {}, "Records that were published to this shard."},
      {directory_withdraws_total, "peercache_directory_withdraws_total", counter, {}, "Records that were withdrawn from this shard."},
      {directory_lookups_total, "peercache_directory_lookups_total", counter, {}, "Keys that were looked up in this shard."},
      {directory_foreign_lookups_total, "peercache_directory_foreign_lookups_total", counter, {}, "Keys that were looked up in this shard and that other nodes own: by clients that follow an older view."},
      {directory_datagrams_total, "peercache_directory_datagrams_total", counter, s.served_datagram, "Datagrams that came to the look-up port, by what became of them; `over_tcp`: the shard was busy or the answer long, `refused`: no question of a client, `paced`: too many of one client."},
      {directory_republished_total, "peercache_directory_republished_total", counter, {}, "Records of this node's pages that were told to new owners after a change of view."},
      {directory_handed_over_total, "peercache_directory_handed_over_total", counter, {}, "Records that were given to their new owners before this node drained."},
      {repair_passes_total, "peercache_repair_passes_total", counter, {}, "Comparisons of what this node holds with what all shards of the directory say it holds."},
      {repair_bytes_total, "peercache_repair_bytes_total", counter, {}, "Bytes of their messages."},
      {repair_differing_ranges_total, "peercache_repair_differing_ranges_total", counter, {}, "Ranges of keys, of one shard each, that were found to differ."},
      {repair_records_total, "peercache_repair_records_total", counter, s.repair, "Records that were repaired: published to a shard that lacked them, or withdrawn because the page is gone."},
      {mirrored_pages_total, "peercache_mirrored_pages_total", counter, s.mirror, "Copies of other hosts' pages for this pool: taken in, or refused because their share of it was full."},
      {mirrored_bytes, "peercache_mirrored_bytes", gauge, {}, "Bytes of the pool that hold copies of other hosts' pages."},
      {holds_total, "peercache_holds_total", counter, s.hold, "Pages that look-ups of local clients were to hold, by what became of it; `refused`: the share of the pool for held pages was full."},
      {holds_expired_total, "peercache_holds_expired_total", counter, {}, "Holds of pages of this pool that no read has ended, only their time."},
      {held_pages, "peercache_held_pages", gauge, {}, "Pages of this pool that are kept from eviction because somebody looked them up."},
      {held_bytes, "peercache_held_bytes", gauge, {}, "Bytes of these pages, with what rounding costs."},
  });
}

void add_cluster(table& rows) {
  using enum metric;
  const label_sets& s = sets();
  rows.insert(rows.end(), {
      {draining, "peercache_draining", gauge, {}, "1 while the view says that this node owns no keys, else 0."},
      {view_refreshes_total, "peercache_view_refreshes_total", counter, {}, "Look-ups of local clients that fetched a newer view and asked again."},
      {shard_lookups_total, "peercache_shard_lookups_total", counter, s.shard_lookup, "Questions of local clients' look-ups that read the memory of this node's shard (`own`) or READ another node's over RDMA (`read`); `asked`: the node was asked after all."},
      {shard_reads_total, "peercache_shard_reads_total", counter, {}, "READs over RDMA of other hosts' shards by look-ups of local clients."},
      {lookup_datagrams_total, "peercache_lookup_datagrams_total", counter, s.lookup_datagram, "Questions of local clients' look-ups that were sent by datagram, and those that were asked again over TCP; `dropped`: datagrams that came and answered no open question."},
      {members, "peercache_members", gauge, {}, "Nodes in the view that this node follows."},
      {view_term, "peercache_view_term", gauge, {}, "Term of the view; grows with each view that is no fragment."},
      {view_version, "peercache_view_version", gauge, {}, "Version of the view; grows with each join, leave and expiry."},
      {view_masters_lost, "peercache_view_masters_lost", gauge, {}, "Masters that the view is without because it is a fragment (made without most of them), else 0."},
      {members_gone, "peercache_members_gone", gauge, {}, "Members that are gone and neither came back nor stopped in order; `peercache nodes` names them."},
      {cluster_faults, "peercache_cluster_faults", gauge, s.fault, "Faults that `peercache status` names, by id (docs/errors.md): told by the leader, or by a node in no cluster, while its metrics are collected, and 0 at all others."},
      {is_master, "peercache_is_master", gauge, {}, "1 while this node is a master of the view, else 0."},
      {is_leader, "peercache_is_leader", gauge, {}, "1 while this node leads the masters, else 0."},
      {links, "peercache_links", gauge, {}, "Other nodes of the view that this node has a live connection to."},
      {sessions, "peercache_sessions", gauge, {}, "Clients that are connected to this node."},
      {gpu_keys, "peercache_gpu_keys", gauge, {}, "Keys of pages that engines of this host say they hold on their GPUs, of at most overlap.gpu_keys."},
      {gpu_reporters, "peercache_gpu_reporters", gauge, {}, "Clients that have told of such keys."},
      {gpu_refused_total, "peercache_gpu_refused_total", counter, {}, "Keys on GPUs that were not taken because there were too many of keys or clients."},
      {gpu_untold_total, "peercache_gpu_untold_total", counter, {}, "Keys on GPUs that a local client did not tell because its engine holds too many."},
      {data_connections, "peercache_data_connections", gauge, {}, "Open connections of the data plane, both directions."},
      {data_pages_sent_total, "peercache_data_pages_sent_total", counter, {}, "Pages that were sent to readers on other hosts."},
      {data_bytes_sent_total, "peercache_data_bytes_sent_total", counter, {}, "Page bytes that were sent to readers on other hosts."},
      {breakers_open, "peercache_breakers_open", gauge, {}, "Peers that local clients leave alone at the moment because they failed repeatedly."},
      {data_plane_info, "peercache_data_plane_info", gauge, s.plane, "Always 1; the label says whether pages go over verbs or TCP, and why."},
      {tcp_peer_reads_total, "peercache_tcp_peer_reads_total", counter, s.peer, "Pages that local clients got from this peer's pool over TCP."},
      {tcp_peer_bytes_total, "peercache_tcp_peer_bytes_total", counter, s.peer, "Bytes of these pages."},
      {tcp_peer_errors_total, "peercache_tcp_peer_errors_total", counter, s.peer, "TCP connections to this peer's data port that were refused, not answered in time, or ended with pages on their way."},
  });
}

void add_rdma(table& rows) {
  using enum metric;
  const label_sets& s = sets();
  rows.insert(rows.end(), {
      {rdma_reads_total, "peercache_rdma_reads_total", counter, s.rail, "READs of page bytes that local clients posted."},
      {rdma_read_bytes_total, "peercache_rdma_read_bytes_total", counter, s.rail, "Page bytes of these READs."},
      {rdma_bounced_bytes_total, "peercache_rdma_bounced_bytes_total", counter, s.rail, "Bytes that went through a bounce buffer because the destination was not registered."},
      {rdma_errors_total, "peercache_rdma_errors_total", counter, s.rail_status, "READs of local clients that ended with an error, by the completion's status."},
      {rdma_channels, "peercache_rdma_channels", gauge, s.rail, "Queue pairs of local clients to other hosts."},
      {rdma_peer_reads_total, "peercache_rdma_peer_reads_total", counter, s.peer, "Pages that local clients READ from this peer's pool."},
      {rdma_peer_bytes_total, "peercache_rdma_peer_bytes_total", counter, s.peer, "Bytes of these pages."},
      {rdma_peer_errors_total, "peercache_rdma_peer_errors_total", counter, s.peer, "Queue pairs to this peer that broke in the middle of a batch."},
      {rdma_rail_serving, "peercache_rdma_rail_serving", gauge, s.rail, "1 while other hosts can READ this node's pool over the rail, else 0."},
      {rdma_readers, "peercache_rdma_readers", gauge, s.rail, "Queue pairs over which other processes READ this node's pool."},
      {rdma_region_bytes, "peercache_rdma_region_bytes", gauge, s.rail, "Bytes of the pool that are registered with the rail."},
      {rdma_chunks_failed, "peercache_rdma_chunks_failed", gauge, s.rail, "Pieces of the memory that is served (rdma.chunk_size) that could not be registered with the rail: their pages are read over another rail, or TCP; without the first piece, all pages are."},
      {rdma_windows_failed_total, "peercache_rdma_windows_failed_total", counter, s.rail, "Memory windows that could not be made or bound, and readers turned away since none was bound in time (rdma.windows)."},
  });
}

void add_disk(table& rows) {
  using enum metric;
  const label_sets& s = sets();
  rows.insert(rows.end(), {
      {disk_on, "peercache_disk_on", gauge, {}, "1 while the node has a disk tier, else 0."},
      {disk_info, "peercache_disk_info", gauge, s.store_io, "Always 1; the labels say how pages lie on disk, and by which calls they get there."},
      {disk_scanned_ratio, "peercache_disk_scanned_ratio", gauge, {}, "Share of the disk tier that the start has read, 1 when that is done."},
      {disk_bytes_capacity, "peercache_disk_bytes_capacity", gauge, {}, "The most that the disk tier's files may take."},
      {disk_bytes, "peercache_disk_bytes", gauge, {}, "Bytes that the disk tier's files take, headers and unused room included."},
      {disk_records, "peercache_disk_records", gauge, {}, "Pages that can be read from disk."},
      {disk_record_bytes, "peercache_disk_record_bytes", gauge, {}, "Bytes of these pages."},
      {disk_files, "peercache_disk_files", gauge, {}, "Files that hold them."},
      {disk_queue_bytes, "peercache_disk_queue_bytes", gauge, {}, "Bytes of pages that are to be written and are not durable yet."},
      {disk_queue_pages, "peercache_disk_queue_pages", gauge, {}, "Pages that are to be written and are not durable yet."},
      {disk_writes_total, "peercache_disk_writes_total", counter, {}, "Pages that were written and made durable."},
      {disk_written_bytes_total, "peercache_disk_written_bytes_total", counter, {}, "Bytes of these pages, in whole blocks."},
      {disk_skips_total, "peercache_disk_skips_total", counter, s.skip, "Pages that were not written, by the reason; `read_only`: the tier takes no page for now, because its device was full a moment ago, it is being scanned, or it is off."},
      {disk_reads_total, "peercache_disk_reads_total", counter, {}, "Pages that were read from disk, their checksums compared, scrubs included."},
      {disk_read_bytes_total, "peercache_disk_read_bytes_total", counter, {}, "Bytes of these pages."},
      {disk_errors_total, "peercache_disk_errors_total", counter, s.disk_op, "Writes and reads that the device failed."},
      {disk_checksum_failures_total, "peercache_disk_checksum_failures_total", counter, {}, "Pages on disk whose bytes were not what was written; they are dropped, and a get of one is a miss."},
      {disk_op_seconds, "peercache_disk_op_seconds", histogram, s.disk_op, "How long a page took from the queue until it was durable, and from disk into memory."},
      {disk_evictions_total, "peercache_disk_evictions_total", counter, {}, "Pages that left the disk to make room."},
      {disk_expirations_total, "peercache_disk_expirations_total", counter, {}, "Pages that left the disk because they were too old."},
      {disk_scrubbed_bytes_total, "peercache_disk_scrubbed_bytes_total", counter, {}, "Bytes of pages that were read in the background and found whole."},
      {disk_breaker_open, "peercache_disk_breaker_open", gauge, {}, "1 while writes to the disk, or reads, are left alone because they failed repeatedly, else 0."},
      {disk_breaker_opened_total, "peercache_disk_breaker_opened_total", counter, {}, "How often that began."},
      {disk_read_only, "peercache_disk_read_only", gauge, {}, "1 from when the device is full until a write has found room again, else 0."},
      {disk_incident, "peercache_disk_incident", gauge, s.incident, "1 while a trouble of the disk tier lasts, by its kind, else 0; `peercache status` says more (docs/errors.md)."},
      {disk_recovered_records, "peercache_disk_recovered_records", gauge, {}, "Pages that the start found on disk and serves again."},
      {disk_dropped_records, "peercache_disk_dropped_records", gauge, s.dropped, "Records that the start found on disk and does not serve, by the reason."},
      {disk_promotes_total, "peercache_disk_promotes_total", counter, s.promote, "Pages that were to be brought from disk into memory, by what became of them."},
      {disk_warmed_total, "peercache_disk_warmed_total", counter, {}, "Promoted pages that an exists asked for."},
      {disk_promotes_on_their_way, "peercache_disk_promotes_on_their_way", gauge, {}, "Pages on their way from disk into memory."},
  });
}

void add_handoff(table& rows) {
  using enum metric;
  const label_sets& s = sets();
  rows.insert(rows.end(), {
      {handoff_rooms, "peercache_handoff_rooms", gauge, s.side_state, "Rooms (prompts to hand over) that engines have open at local workers, by their state; those that have ended wait for the engine to clear them."},
      {handoff_peers, "peercache_handoff_peers", gauge, s.side, "Connections of local workers to workers of the other side."},
      {handoff_rooms_total, "peercache_handoff_rooms_total", counter, s.side_result, "Prompts whose hand-over has ended; `failed` for whatever reason, an ended lease included."},
      {handoff_failures_total, "peercache_handoff_failures_total", counter, s.side_failure, "Prompts whose hand-over has failed, once each, by the first reason; `lease`: prefill had taken the pages back before decode read them, `read`: a read failed otherwise."},
      {handoff_last_failure_seconds, "peercache_handoff_last_failure_seconds", gauge, s.worker_text, "When a hand-over failed for this reason, in seconds since 1970; the last few of each worker."},
      {handoff_bytes_total, "peercache_handoff_bytes_total", counter, s.side, "Bytes of prompts that local workers handed over (prefill) or read (decode)."},
      {handoff_reads_total, "peercache_handoff_reads_total", counter, s.read_result, "Reads of local decode workers, of which a prompt may take several: good, refused because the lease had ended (prefill had taken the pages back), or failed for another reason; the first that is not good fails its prompt."},
      {handoff_seconds, "peercache_handoff_seconds", histogram, {}, "How long a prompt took from prefill's first offer until decode had all of it."},
  });
}
// clang-format on

bool is_well_formed(const metric_info& row) {
  const bool is_bounded =
      std::ranges::none_of(row.labels, [](const label_info& label) { return label.words.empty(); });
  return row.labels.size() <= labels_per_metric_max && (is_bounded || row.type != histogram);
}

bool in_order(const table& rows) {
  if (rows.size() != metric_count)
    return false;
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (static_cast<std::size_t>(rows[i].id) != i || !is_well_formed(rows[i]))
      return false;
  return true;
}

table make_table() {
  table rows;
  add_process(rows);
  add_node(rows);
  add_cluster(rows);
  add_rdma(rows);
  add_disk(rows);
  add_handoff(rows);
  rows.push_back({metric::series_refused_total,
                  "peercache_series_refused_total",
                  counter,
                  {},
                  "Series that were not kept because their metric had its limit of series."});
  PEERCACHE_ASSERT(in_order(rows));
  return rows;
}

const table& rows() {
  static const table built = make_table();
  return built;
}

std::string label_text(const label_info& label) {
  std::string text = "`" + std::string{label.name} + "`";
  if (label.words.empty())
    return text;
  text += ": ";
  for (std::size_t i = 0; i < label.words.size(); ++i)
    text += (i == 0 ? "" : ", ") + std::string{label.words[i]};
  return text;
}

std::string document_row(const metric_info& info) {
  std::string text =
      "| `" + std::string{info.name} + "` | " + std::string{to_string(info.type)} + " | ";
  for (std::size_t i = 0; i < info.labels.size(); ++i)
    text += (i == 0 ? "" : "; ") + label_text(info.labels[i]);
  return text + " | " + std::string{info.help} + " |\n";
}

} // namespace

std::string_view to_string(metric_type type) noexcept {
  switch (type) {
  case counter:
    return "counter";
  case gauge:
    return "gauge";
  case histogram:
    return "histogram";
  }
  return "unknown";
}

std::span<const metric_info> metric_table() noexcept {
  return rows();
}

const metric_info& info_of(metric id) noexcept {
  PEERCACHE_ASSERT(static_cast<std::size_t>(id) < metric_count);
  return rows()[static_cast<std::size_t>(id)];
}

const metric_info* find_metric(std::string_view name) noexcept {
  static const auto by_name = [] {
    std::map<std::string_view, const metric_info*> all;
    for (const metric_info& info : rows())
      all.emplace(info.name, &info);
    return all;
  }();
  const auto found = by_name.find(name);
  return found == by_name.end() ? nullptr : found->second;
}

std::span<const std::uint64_t> histogram_bounds_ns() noexcept {
  static constexpr std::array<std::uint64_t, 25> bounds = [] {
    std::array<std::uint64_t, 25> values{};
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = std::uint64_t{1024} << i;
    return values;
  }();
  return bounds;
}

std::string metrics_document() {
  std::string text =
      "# Metrics\n\n"
      "Every node serves these on its HTTP port (31997) at `/metrics`, in Prometheus' text "
      "format.\nThis file is written by `peercache_metrics_docs` from "
      "`metrics/metric_table.cpp`; do not edit it.\n"
      "Histograms have buckets at powers of two from 1.024 µs to 17.2 s.\n\n"
      "| name | type | labels | meaning |\n|---|---|---|---|\n";
  for (const metric_info& info : metric_table())
    text += document_row(info);
  text += "\nAnd what the kernel says of the process, under the names of Prometheus' client "
          "libraries:\n\n"
          "| name | type | meaning |\n|---|---|---|\n";
  for (const auto& each : process_metrics())
    text += std::string("| `") + each.name + "` | " +
            (each.type == metric_type::counter ? "counter" : "gauge") + " | " + each.help + " |\n";
  return text;
}

} // namespace peercache::metrics
