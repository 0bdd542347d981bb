#pragma once

#include "common/page_status.hpp"
#include "metrics/latency_histogram.hpp"

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace peercache::link {

// What actors say of themselves: totals since the start, gauges of now. They travel field by field,
// in the order of their `inspect`: another field is another `wire_version`. User-declared
// constructors keep g++ from taking the structs for paren-initialisable aggregates.

struct directory_report {
  directory_report() = default;
  std::uint64_t records = 0;
  std::uint64_t bytes = 0;
  std::uint64_t lookups = 0; ///< Keys, not messages.
  std::uint64_t publishes = 0;
  std::uint64_t withdraws = 0;
  std::uint64_t foreign = 0;     ///< Keys that were looked up and that other nodes own.
  std::uint64_t handed_over = 0; ///< Records given to their new owners before a drain.
  std::uint64_t replicas = 0;    ///< Owners of each key.
  std::uint64_t links = 0;       ///< Other members that it has a live connection to.
  std::map<std::string, std::uint64_t> records_of; ///< By the name of the node whose page it is.
  template <class Inspector>
  friend auto inspect(Inspector& f, directory_report& x) {
    return f(x.records, x.bytes, x.lookups, x.publishes, x.withdraws, x.foreign, x.handed_over,
             x.replicas, x.links, x.records_of);
  }
};

struct pool_report {
  pool_report() = default;
  std::uint64_t bytes_used = 0;
  std::uint64_t bytes_capacity = 0;
  std::uint64_t pages = 0;
  std::uint64_t filling = 0;
  std::uint64_t limbo = 0;
  std::uint64_t puts = 0;
  std::uint64_t duplicates = 0;
  std::uint64_t evictions = 0;
  std::uint64_t evicted_bytes = 0;
  std::uint64_t adopted = 0;         ///< Pages of the process before that were taken over.
  std::uint64_t adopted_refused = 0; ///< Others of it, whose bytes are not those of the checksum.
  std::uint64_t cleared = 0;         ///< Pages given up because their space was cleared.
  std::uint64_t unpublished = 0;     ///< Pages that no directory owner has acknowledged yet.
  std::uint64_t republished = 0;     ///< Records told to new owners after a change of view.
  std::uint64_t mirrored = 0;        ///< Copies of other hosts' pages that were taken in.
  std::uint64_t mirrored_refused = 0;
  std::uint64_t mirrored_bytes = 0; ///< That are held now.
  std::uint64_t repair_passes = 0;
  std::uint64_t repair_bytes = 0;
  std::uint64_t repair_differing = 0;
  std::uint64_t repair_published = 0;
  std::uint64_t repair_withdrawn = 0;
  template <class Inspector>
  friend auto inspect(Inspector& f, pool_report& x) {
    return f(x.bytes_used, x.bytes_capacity, x.pages, x.filling, x.limbo, x.puts, x.duplicates,
             x.evictions, x.evicted_bytes, x.adopted, x.adopted_refused, x.cleared, x.unpublished,
             x.republished, x.mirrored, x.mirrored_refused, x.mirrored_bytes, x.repair_passes,
             x.repair_bytes, x.repair_differing, x.repair_published, x.repair_withdrawn);
  }
};

struct membership_report {
  membership_report() = default;
  std::uint64_t term = 0;
  std::uint64_t version = 0;
  std::uint64_t members = 0;
  bool member = false; ///< This incarnation is in the view.
  bool leader = false;
  bool master = false;
  bool draining = false;          ///< By the view.
  std::uint64_t masters_lost = 0; ///< That the view, which is a fragment, is without; else 0.
  template <class Inspector>
  friend auto inspect(Inspector& f, membership_report& x) {
    return f(x.term, x.version, x.members, x.member, x.leader, x.master, x.draining,
             x.masters_lost);
  }
};

/// A latency histogram on the wire: only its buckets that counted something.
struct latency_report {
  latency_report() = default;
  explicit latency_report(const metrics::latency_snapshot& from);
  std::vector<std::uint64_t> buckets; ///< Pairs: bucket, count.
  std::uint64_t count = 0;
  std::uint64_t sum_ns = 0;
  std::uint64_t max_ns = 0;

  /// The histogram again; buckets that do not exist are left out.
  metrics::latency_snapshot snapshot() const;
  template <class Inspector>
  friend auto inspect(Inspector& f, latency_report& x) {
    return f(x.buckets, x.count, x.sum_ns, x.max_ns);
  }
};

/// What a client's rail has done; the same rails of several clients are added up.
struct rail_report {
  rail_report() = default;
  std::uint64_t reads = 0; ///< Work requests for payloads.
  std::uint64_t bytes = 0;
  std::uint64_t entry_reads = 0;
  std::uint64_t bounced_bytes = 0;
  std::uint64_t channels = 0;                  ///< Open now.
  std::map<std::string, std::uint64_t> errors; ///< Completions, by the name of their status.
  template <class Inspector>
  friend auto inspect(Inspector& f, rail_report& x) {
    return f(x.reads, x.bytes, x.entry_reads, x.bounced_bytes, x.channels, x.errors);
  }
};

/// READs of one peer's pool, over all rails.
struct rdma_peer_report {
  rdma_peer_report() = default;
  std::uint64_t reads = 0; ///< Pages.
  std::uint64_t bytes = 0;
  std::uint64_t errors = 0; ///< Channels that broke in mid-batch.
  template <class Inspector>
  friend auto inspect(Inspector& f, rdma_peer_report& x) {
    return f(x.reads, x.bytes, x.errors);
  }
};

/// Totals of one client process since it started; the node adds up its sessions.
struct client_report {
  client_report() = default;
  std::vector<std::uint64_t> get_status, set_status, exists_status; ///< By page_status.
  std::vector<std::uint64_t> get_hits, get_bytes;                   ///< By page_origin.
  std::uint64_t set_bytes = 0;
  std::uint64_t breakers_open = 0;
  std::uint64_t view_refreshes = 0;
  latency_report get_latency, set_latency, exists_latency; ///< One sample a call.
  std::map<std::string, rail_report> rails;                ///< By device and port: "mlx5_0/1".
  std::map<std::string, rdma_peer_report> rdma_peers;      ///< By name.
  template <class Inspector>
  friend auto inspect(Inspector& f, client_report& x) {
    return f(x.get_status, x.set_status, x.exists_status, x.get_hits, x.get_bytes, x.set_bytes,
             x.breakers_open, x.view_refreshes, x.get_latency, x.set_latency, x.exists_latency,
             x.rails, x.rdma_peers);
  }
};

/// The disk tier of one node.
struct disk_report {
  disk_report() = default;
  bool on = false;
  std::string why_off; ///< While it is not on.
  std::string path;    ///< The node's own folder.
  std::string store;   ///< "bucket", "file_per_key", "offset".
  std::string io;      ///< "io_uring", or "posix" with the reason in `why_fallback`.
  std::string why_fallback;
  double scanned = 1; ///< Share of the folder that the start's scan has read; 1: done.
  std::uint64_t bytes_used = 0;
  std::uint64_t bytes_capacity = 0;
  std::uint64_t pages = 0;
  std::uint64_t page_bytes = 0;
  std::uint64_t files = 0;
  std::uint64_t queue_bytes = 0;
  std::uint64_t queue_pages = 0;
  std::uint64_t writes = 0;
  std::uint64_t written_bytes = 0;
  std::uint64_t write_errors = 0;
  std::map<std::string, std::uint64_t> skipped; ///< By storage::write_skip's word.
  std::uint64_t reads = 0;
  std::uint64_t read_bytes = 0;
  std::uint64_t read_errors = 0;
  std::uint64_t checksum_failures = 0;
  std::uint64_t evicted = 0;
  std::uint64_t expired = 0;
  std::uint64_t cleared = 0; ///< Pages forgotten because their space was cleared.
  std::uint64_t scrubbed_bytes = 0;
  std::uint64_t breaker_opened = 0;
  std::string breaker; ///< "closed", "open", "half_open".
  bool read_only = false;
  bool verifying = false;
  // What the start's scan found.
  std::uint64_t recovered = 0;
  std::uint64_t torn = 0;
  std::uint64_t foreign = 0;
  std::uint64_t replaced = 0;
  std::uint64_t corrupt = 0;
  latency_report write_latency; ///< From the queue to durable.
  latency_report read_latency;
  template <class Inspector>
  friend auto inspect(Inspector& f, disk_report& x) {
    return f(x.on, x.why_off, x.path, x.store, x.io, x.why_fallback, x.scanned, x.bytes_used,
             x.bytes_capacity, x.pages, x.page_bytes, x.files, x.queue_bytes, x.queue_pages,
             x.writes, x.written_bytes, x.write_errors, x.skipped, x.reads, x.read_bytes,
             x.read_errors, x.checksum_failures, x.evicted, x.expired, x.cleared, x.scrubbed_bytes,
             x.breaker_opened, x.breaker, x.read_only, x.verifying, x.recovered, x.torn, x.foreign,
             x.replaced, x.corrupt, x.write_latency, x.read_latency);
  }
};

/// What the promoter of one node has done, in pages.
struct promote_report {
  promote_report() = default;
  std::uint64_t promoted = 0; ///< Brought into the pool.
  std::uint64_t joined = 0;   ///< Asked for while somebody else's promotion was on its way.
  std::uint64_t in_pool = 0;  ///< Were in the pool already.
  std::uint64_t missed = 0;   ///< Not on disk, not whole, or too late.
  std::uint64_t refused = 0;  ///< Too much on its way, or the pool had no room.
  std::uint64_t warmed = 0;   ///< Of the promoted: for an `exists`.
  std::uint64_t on_its_way = 0;
  template <class Inspector>
  friend auto inspect(Inspector& f, promote_report& x) {
    return f(x.promoted, x.joined, x.in_pool, x.missed, x.refused, x.warmed, x.on_its_way);
  }
};

/// What became of a clear.
struct clear_report {
  clear_report() = default;
  bool certain = false;             ///< No page of before is ever a hit, for any client.
  std::uint32_t epoch = 0;          ///< Of the space from here on.
  std::vector<std::string> unaware; ///< Members that have not confirmed it.
  std::vector<std::string> missing; ///< Former members that may live, out of reach.
  std::string why_not;              ///< In words; empty when it is certain.
  template <class Inspector>
  friend auto inspect(Inspector& f, clear_report& x) {
    return f(x.certain, x.epoch, x.unaware, x.missing, x.why_not);
  }
};

/// Clears as one node knows them.
struct clearing_report {
  clearing_report() = default;
  std::uint64_t certain = 0;   ///< Clears that it was asked for and that were certain,
  std::uint64_t uncertain = 0; ///< and those that were not when their time was up.
  std::uint64_t spaces = 0;    ///< With an epoch of their own.
  std::uint64_t missing = 0;   ///< Former members that may live: with any of them none is certain.
  template <class Inspector>
  friend auto inspect(Inspector& f, clearing_report& x) {
    return f(x.certain, x.uncertain, x.spaces, x.missing);
  }
};

/// One node as `peercache status` shows it.
struct node_report {
  node_report() = default;
  std::string member; ///< Encoded discovery::member.
  bool ready = false;
  std::string unready_reason;
  std::uint64_t uptime_ms = 0;
  std::uint64_t sessions = 0;
  std::string data_plane;
  std::string version;
  pool_report pool;
  directory_report directory;
  membership_report membership;
  disk_report disk;
  promote_report promotes;
  clearing_report clearing;
  template <class Inspector>
  friend auto inspect(Inspector& f, node_report& x) {
    return f(x.member, x.ready, x.unready_reason, x.uptime_ms, x.sessions, x.data_plane, x.version,
             x.pool, x.directory, x.membership, x.disk, x.promotes, x.clearing);
  }
};

} // namespace peercache::link
