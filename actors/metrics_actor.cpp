#include "actors/metrics_actor.hpp"

#include "common/log.hpp"
#include "common/page_origin.hpp"
#include "common/page_status.hpp"

#include <fmt/format.h>

namespace peercache::actors {

using metrics::metric;

namespace {

/// Count `index` of a report, whose sender may be older and know fewer of them.
std::uint64_t at(const std::vector<std::uint64_t>& counts, std::size_t index) {
  return index < counts.size() ? counts[index] : 0;
}

void take_pages(metrics::registry& registry, std::string_view op,
                const std::vector<std::uint64_t>& by_status) {
  for (std::size_t i = 0; i < by_status.size(); ++i)
    if (auto status = static_cast<page_status>(i); status < page_status::pending)
      registry.set(metric::pages_total, {op, to_string(status)}, static_cast<double>(by_status[i]));
}

void take_latency(metrics::registry& registry, std::string_view op, const latency_report& report) {
  registry.set(metric::requests_total, {op}, static_cast<double>(report.count));
  registry.set_histogram(metric::op_seconds, {op}, report.snapshot());
}

std::string json_of(const node_report& node) {
  return fmt::format(
      R"({{"version":"{}","ready":{},"unready_reason":"{}","uptime_ms":{},"sessions":{},)"
      R"("data_plane":"{}","term":{},"view":{},"members":{},"leader":{},)"
      R"("pool_bytes_used":{},"pool_bytes_capacity":{},"pool_pages":{},"puts":{},"evictions":{},)"
      R"("directory_records":{}}})",
      node.version, node.ready, node.unready_reason, node.uptime_ms, node.sessions, node.data_plane,
      node.membership.term, node.membership.version, node.membership.members,
      node.membership.leader, node.pool.bytes_used, node.pool.bytes_capacity, node.pool.pages,
      node.pool.puts, node.pool.evictions, node.directory.records);
}

void take_rails(metrics::registry& registry, const client_report& clients) {
  for (const auto& [rail, report] : clients.rails) {
    registry.set(metric::rdma_reads_total, {rail}, static_cast<double>(report.reads));
    registry.set(metric::rdma_read_bytes_total, {rail}, static_cast<double>(report.bytes));
    registry.set(metric::rdma_bounced_bytes_total, {rail},
                 static_cast<double>(report.bounced_bytes));
    registry.set(metric::rdma_channels, {rail}, static_cast<double>(report.channels));
    for (const auto& [status, count] : report.errors)
      registry.set(metric::rdma_errors_total, {rail, status}, static_cast<double>(count));
  }
  for (const auto& [peer, report] : clients.rdma_peers) {
    registry.set(metric::rdma_peer_reads_total, {peer}, static_cast<double>(report.reads));
    registry.set(metric::rdma_peer_bytes_total, {peer}, static_cast<double>(report.bytes));
    registry.set(metric::rdma_peer_errors_total, {peer}, static_cast<double>(report.errors));
  }
}

void take_disk_state(metrics::registry& registry, const disk_report& disk) {
  auto set = [&](metric id, auto value) { registry.set(id, static_cast<double>(value)); };
  set(metric::disk_on, disk.on);
  if (disk.on)
    registry.set(metric::disk_info, {disk.store, disk.io}, 1);
  set(metric::disk_scanned_ratio, disk.scanned);
  set(metric::disk_bytes_capacity, disk.bytes_capacity);
  set(metric::disk_bytes, disk.bytes_used);
  set(metric::disk_records, disk.pages);
  set(metric::disk_record_bytes, disk.page_bytes);
  set(metric::disk_files, disk.files);
  set(metric::disk_queue_bytes, disk.queue_bytes);
  set(metric::disk_queue_pages, disk.queue_pages);
  set(metric::disk_breaker_open, disk.on && disk.breaker != "closed");
  set(metric::disk_read_only, disk.read_only);
  set(metric::disk_recovered_records, disk.recovered);
  registry.set(metric::disk_dropped_records, {"torn"}, static_cast<double>(disk.torn));
  registry.set(metric::disk_dropped_records, {"foreign"}, static_cast<double>(disk.foreign));
  registry.set(metric::disk_dropped_records, {"replaced"}, static_cast<double>(disk.replaced));
  registry.set(metric::disk_dropped_records, {"corrupt"}, static_cast<double>(disk.corrupt));
}

void take_disk_totals(metrics::registry& registry, const disk_report& disk) {
  auto set = [&](metric id, auto value) { registry.set(id, static_cast<double>(value)); };
  set(metric::disk_writes_total, disk.writes);
  set(metric::disk_written_bytes_total, disk.written_bytes);
  for (auto word : metrics::disk_skip_words)
    if (const auto found = disk.skipped.find(std::string(word)); found != disk.skipped.end())
      registry.set(metric::disk_skips_total, {word}, static_cast<double>(found->second));
  set(metric::disk_reads_total, disk.reads);
  set(metric::disk_read_bytes_total, disk.read_bytes);
  registry.set(metric::disk_errors_total, {"write"}, static_cast<double>(disk.write_errors));
  registry.set(metric::disk_errors_total, {"read"}, static_cast<double>(disk.read_errors));
  set(metric::disk_checksum_failures_total, disk.checksum_failures);
  registry.set_histogram(metric::disk_op_seconds, {"write"}, disk.write_latency.snapshot());
  registry.set_histogram(metric::disk_op_seconds, {"read"}, disk.read_latency.snapshot());
  set(metric::disk_evictions_total, disk.evicted);
  set(metric::disk_expirations_total, disk.expired);
  set(metric::disk_scrubbed_bytes_total, disk.scrubbed_bytes);
  set(metric::disk_breaker_opened_total, disk.breaker_opened);
}

void take_promotes(metrics::registry& registry, const promote_report& promotes) {
  auto set = [&](std::string_view word, std::uint64_t pages) {
    registry.set(metric::disk_promotes_total, {word}, static_cast<double>(pages));
  };
  set("promoted", promotes.promoted);
  set("joined", promotes.joined);
  set("in_pool", promotes.in_pool);
  set("missed", promotes.missed);
  set("refused", promotes.refused);
  registry.set(metric::disk_warmed_total, static_cast<double>(promotes.warmed));
  registry.set(metric::disk_promotes_on_their_way, static_cast<double>(promotes.on_its_way));
}

void take_repair(metrics::registry& registry, const pool_report& pool) {
  auto set = [&](metric id, auto value) { registry.set(id, static_cast<double>(value)); };
  set(metric::repair_passes_total, pool.repair_passes);
  set(metric::repair_bytes_total, pool.repair_bytes);
  set(metric::repair_differing_ranges_total, pool.repair_differing);
  set(metric::mirrored_bytes, pool.mirrored_bytes);
  auto labelled = [&](metric id, std::string_view label, std::uint64_t value) {
    registry.set(id, {label}, static_cast<double>(value));
  };
  labelled(metric::repair_records_total, "published", pool.repair_published);
  labelled(metric::repair_records_total, "withdrawn", pool.repair_withdrawn);
  labelled(metric::mirrored_pages_total, "mirrored", pool.mirrored);
  labelled(metric::mirrored_pages_total, "refused", pool.mirrored_refused);
}

void take_clears(metrics::registry& registry, const node_report& node) {
  auto labelled = [&](metric id, std::string_view label, std::uint64_t value) {
    registry.set(id, {label}, static_cast<double>(value));
  };
  labelled(metric::clears_total, "certain", node.clearing.certain);
  labelled(metric::clears_total, "uncertain", node.clearing.uncertain);
  labelled(metric::cleared_pages_total, "memory", node.pool.cleared);
  labelled(metric::cleared_pages_total, "disk", node.disk.cleared);
  registry.set(metric::cleared_spaces, static_cast<double>(node.clearing.spaces));
  registry.set(metric::clear_nodes_missing, static_cast<double>(node.clearing.missing));
}

} // namespace

void metrics_state::take(const node_report& node) {
  take_disk_state(registry, node.disk);
  take_disk_totals(registry, node.disk);
  take_promotes(registry, node.promotes);
  take_clears(registry, node);
  auto set = [this](metric id, auto value) { registry.set(id, static_cast<double>(value)); };
  registry.set(metric::build_info, {node.version}, 1);
  registry.set(metric::data_plane_info, {node.data_plane}, 1);
  set(metric::uptime_seconds, static_cast<double>(node.uptime_ms) / 1000);
  set(metric::ready, node.ready);
  set(metric::pool_bytes_capacity, node.pool.bytes_capacity);
  set(metric::pool_bytes_used, node.pool.bytes_used);
  set(metric::pool_pages, node.pool.pages);
  set(metric::pool_pages_filling, node.pool.filling);
  set(metric::evictions_total, node.pool.evictions);
  set(metric::evicted_bytes_total, node.pool.evicted_bytes);
  set(metric::adopted_pages_total, node.pool.adopted);
  set(metric::adopted_refused_total, node.pool.adopted_refused);
  set(metric::directory_records, node.directory.records);
  set(metric::directory_record_bytes,
      node.directory.records > 0 ? node.directory.bytes / node.directory.records : 0);
  set(metric::directory_publishes_total, node.directory.publishes);
  set(metric::directory_withdraws_total, node.directory.withdraws);
  set(metric::directory_lookups_total, node.directory.lookups);
  set(metric::directory_foreign_lookups_total, node.directory.foreign);
  set(metric::directory_republished_total, node.pool.republished);
  set(metric::directory_handed_over_total, node.directory.handed_over);
  set(metric::draining, node.membership.draining);
  take_repair(registry, node.pool);
  set(metric::members, node.membership.members);
  set(metric::view_term, node.membership.term);
  set(metric::view_version, node.membership.version);
  set(metric::view_masters_lost, node.membership.masters_lost);
  set(metric::is_master, node.membership.master);
  set(metric::sessions, node.sessions);
}

void metrics_state::take(const client_report& clients) {
  take_pages(registry, "get", clients.get_status);
  take_pages(registry, "set", clients.set_status);
  take_pages(registry, "exists", clients.exists_status);
  take_latency(registry, "get", clients.get_latency);
  take_latency(registry, "set", clients.set_latency);
  take_latency(registry, "exists", clients.exists_latency);
  take_rails(registry, clients);
  for (std::size_t i = 0; i < page_source_words.size(); ++i) {
    auto source = page_source_words[i];
    registry.set(metric::hits_total, {source}, static_cast<double>(at(clients.get_hits, i + 1)));
    registry.set(metric::bytes_total, {"get", source},
                 static_cast<double>(at(clients.get_bytes, i + 1)));
  }
  registry.set(metric::bytes_total, {"set", to_string(page_origin::own_host)},
               static_cast<double>(clients.set_bytes));
  registry.set(metric::breakers_open, static_cast<double>(clients.breakers_open));
  registry.set(metric::view_refreshes_total, static_cast<double>(clients.view_refreshes));
  for (std::size_t i = 0; i < clients.get_status.size(); ++i)
    if (auto status = static_cast<page_status>(i);
        !is_success(status) && status < page_status::pending)
      registry.set(metric::misses_total, {to_string(status)},
                   static_cast<double>(clients.get_status[i]));
}

void metrics_state::take(const std::vector<rail_service::rail_snapshot>& rails) {
  for (const auto& [rail, stats] : rails) {
    registry.set(metric::rdma_rail_serving, {rail}, stats.serving ? 1 : 0);
    registry.set(metric::rdma_readers, {rail}, stats.sessions);
    registry.set(metric::rdma_region_bytes, {rail},
                 static_cast<double>(stats.regions.registered_bytes));
    registry.set(metric::rdma_registrations_after_start_total, {rail},
                 static_cast<double>(stats.regions.registrations_after_start));
  }
}

void metrics_state::take(const page_server::snapshot& server) {
  registry.set(metric::data_connections, static_cast<double>(server.connections));
  registry.set(metric::data_pages_sent_total, static_cast<double>(server.stats.payloads));
  registry.set(metric::data_bytes_sent_total, static_cast<double>(server.stats.bytes_sent));
}

void metrics_state::publish(const node_report& node) {
  options.board->text.store(registry.text());
  options.board->status.store(json_of(node));
}

metrics_actor::behavior_type run_metrics(metrics_actor::stateful_pointer<metrics_state> self,
                                         metrics_options options) {
  self->state.options = std::move(options);
  self->send(self, beat_atom_v);
  return {
      [self](beat_atom) {
        auto& own = self->state.options;
        auto failed = [self](const caf::error& why) {
          log::warn("metrics: no report: {}", self->system().render(why));
        };
        self->request(own.gateway, std::chrono::seconds(3), stats_atom_v)
            .then(
                [self](const client_report& clients, std::uint64_t) { self->state.take(clients); },
                failed);
        self->request(own.gateway, std::chrono::seconds(3), status_atom_v)
            .then(
                [self](const node_report& node) {
                  self->state.take(self->state.options.page_server_stats());
                  self->state.take(self->state.options.rail_stats());
                  self->state.take(node);
                  self->state.publish(node);
                },
                failed);
        self->delayed_send(self, own.interval, beat_atom_v);
      },
  };
}

} // namespace peercache::actors
