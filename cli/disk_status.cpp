#include "cli/disk_status.hpp"

#include "cli/cluster_health.hpp"
#include "cli/output.hpp"
#include "metrics/metric_table.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <string_view>

namespace peercache::cli {

using metrics::metric;

namespace {

using client::node_status;

double ms_at(const metrics::latency_snapshot& latency, double share) {
  return static_cast<double>(latency.quantile_ns(share)) / 1e6;
}

nlohmann::json latency_json(const node_status& node, std::string_view op) {
  const auto latency = node.samples.latency(metric::disk_op_seconds, {op});
  return {
      {"count", latency.count}, {"p50_ms", ms_at(latency, 0.5)}, {"p99_ms", ms_at(latency, 0.99)}};
}

std::string latency_text(const node_status& node, std::string_view op) {
  const auto latency = node.samples.latency(metric::disk_op_seconds, {op});
  return latency.count == 0 ? std::string()
                            : fmt::format(", {:.2f} ms (p50), {:.2f} ms (p99)", ms_at(latency, 0.5),
                                          ms_at(latency, 0.99));
}

/// Counts of pages that were not written, by the reason.
std::map<std::string, std::uint64_t> skips_of(const node_status& node) {
  std::map<std::string, std::uint64_t> skips;
  for (const auto& [which, value] : node.samples.values())
    if (which.id == metric::disk_skips_total)
      skips[which.words[0]] = static_cast<std::uint64_t>(value);
  return skips;
}

std::string skips_text(const node_status& node) {
  std::string text;
  for (const auto& [reason, pages] : skips_of(node))
    if (pages != 0)
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", human_count(pages), reason);
  return text.empty() ? "none" : text;
}

double scanned(const node_status& node) {
  return node.samples.value(metric::disk_scanned_ratio);
}

std::string state_of(const node_status& node) {
  if (node.lacks(link::node_parts::disk))
    return "not known: it does not answer its node within 1 s";
  if (!node.is(metric::disk_on))
    return "off: " + node.disk.why_off;
  if (scanned(node) < 1)
    return fmt::format("being scanned, {:.0f} % done", scanned(node) * 100);
  if (node.disk.breaker != "closed")
    return fmt::format("left alone because it failed (breaker {})", node.disk.breaker);
  if (node.is(metric::disk_read_only))
    return "read-only: the device is full";
  return node.disk.verifying ? "on, being verified" : "on";
}

/// The value of a metric with one label.
std::uint64_t by_word(const node_status& node, metric id, std::string_view word) {
  return node.samples.count(id, {word});
}

/// How much was counted between two reports; 0 when the node was started in between.
std::uint64_t since(std::uint64_t total, std::uint64_t before) {
  return total - std::min(before, total);
}

nlohmann::json promotes_json(const node_status& node) {
  nlohmann::json all = {{"warmed", node.count(metric::disk_warmed_total)},
                        {"on_its_way", node.count(metric::disk_promotes_on_their_way)}};
  for (const auto* word : {"promoted", "joined", "in_pool", "missed", "refused"})
    all[word] = by_word(node, metric::disk_promotes_total, word);
  return all;
}

nlohmann::json incidents_json(const node_status& node) {
  auto all = nlohmann::json::array();
  for (const auto& each : node.disk.faults)
    all.push_back({{"id", each.id}, {"text", each.what}, {"since_unix_ms", each.since_ms}});
  return all;
}

nlohmann::json recovered_json(const node_status& node) {
  nlohmann::json all = {{"pages", node.count(metric::disk_recovered_records)}};
  for (const auto* word : {"torn", "foreign", "replaced", "corrupt"})
    all[word] = by_word(node, metric::disk_dropped_records, word);
  return all;
}

} // namespace

nlohmann::json disk_json(const node_status& node) {
  const auto& disk = node.disk;
  return {{"node", node.self.name},
          {"known", !node.lacks(link::node_parts::disk)},
          {"on", node.is(metric::disk_on)},
          {"why_off", disk.why_off},
          {"path", disk.path},
          {"store", disk.store},
          {"io", disk.io},
          {"why_fallback", disk.why_fallback},
          {"scanned", scanned(node)},
          {"bytes_used", node.count(metric::disk_bytes)},
          {"bytes_capacity", node.count(metric::disk_bytes_capacity)},
          {"pages", node.count(metric::disk_records)},
          {"page_bytes", node.count(metric::disk_record_bytes)},
          {"files", node.count(metric::disk_files)},
          {"queue_bytes", node.count(metric::disk_queue_bytes)},
          {"queue_pages", node.count(metric::disk_queue_pages)},
          {"writes", node.count(metric::disk_writes_total)},
          {"written_bytes", node.count(metric::disk_written_bytes_total)},
          {"write_errors", by_word(node, metric::disk_errors_total, "write")},
          {"skipped", skips_of(node)},
          {"reads", node.count(metric::disk_reads_total)},
          {"read_bytes", node.count(metric::disk_read_bytes_total)},
          {"read_errors", by_word(node, metric::disk_errors_total, "read")},
          {"checksum_failures", node.count(metric::disk_checksum_failures_total)},
          {"evicted", node.count(metric::disk_evictions_total)},
          {"expired", node.count(metric::disk_expirations_total)},
          {"scrubbed_bytes", node.count(metric::disk_scrubbed_bytes_total)},
          {"breaker", disk.breaker},
          {"breaker_opened", node.count(metric::disk_breaker_opened_total)},
          {"read_only", node.is(metric::disk_read_only)},
          {"verifying", disk.verifying},
          {"incidents", incidents_json(node)},
          {"recovered", recovered_json(node)},
          {"write_latency", latency_json(node, "write")},
          {"read_latency", latency_json(node, "read")},
          {"promotes", promotes_json(node)}};
}

std::string disk_text(const node_status& node) {
  fact_list facts;
  facts.add("disk tier", state_of(node));
  for (const auto& each : node.disk.faults)
    facts.add("", fmt::format("- {} [{}]", sentence_of(each), each.id));
  if (!node.is(metric::disk_on))
    return facts.to_string();
  const auto& disk = node.disk;
  const auto count = [&](metric id) { return human_count(node.count(id)); };
  const auto bytes = [&](metric id) { return human_bytes(node.count(id)); };
  const auto worded = [&](metric id, std::string_view word) {
    return human_count(by_word(node, id, word));
  };
  facts.add("folder", disk.path);
  facts.add("store", fmt::format("{} over {}{}", disk.store, disk.io,
                                 disk.why_fallback.empty() ? "" : ": " + disk.why_fallback));
  facts.add("files", fmt::format("{}, {} of {}", count(metric::disk_files),
                                 bytes(metric::disk_bytes), bytes(metric::disk_bytes_capacity)));
  facts.add("pages",
            fmt::format("{}, {}", count(metric::disk_records), bytes(metric::disk_record_bytes)));
  facts.add("queue", fmt::format("{} pages, {}", count(metric::disk_queue_pages),
                                 bytes(metric::disk_queue_bytes)));
  facts.add("written",
            fmt::format("{} pages, {}, {} errors{}", count(metric::disk_writes_total),
                        bytes(metric::disk_written_bytes_total),
                        worded(metric::disk_errors_total, "write"), latency_text(node, "write")));
  facts.add("not written", skips_text(node));
  facts.add("read",
            fmt::format("{} pages, {}, {} errors{}", count(metric::disk_reads_total),
                        bytes(metric::disk_read_bytes_total),
                        worded(metric::disk_errors_total, "read"), latency_text(node, "read")));
  facts.add("wrong checksums", count(metric::disk_checksum_failures_total));
  facts.add("promotes",
            fmt::format("{} pages ({} for an exists), {} missed, {} refused, {} on their way",
                        worded(metric::disk_promotes_total, "promoted"),
                        count(metric::disk_warmed_total),
                        worded(metric::disk_promotes_total, "missed"),
                        worded(metric::disk_promotes_total, "refused"),
                        count(metric::disk_promotes_on_their_way)));
  facts.add("evicted", fmt::format("{} pages, {} were too old", count(metric::disk_evictions_total),
                                   count(metric::disk_expirations_total)));
  facts.add("scrubbed", bytes(metric::disk_scrubbed_bytes_total));
  facts.add("found at start",
            fmt::format("{} pages; dropped {} torn, {} foreign, {} replaced, {} corrupt",
                        count(metric::disk_recovered_records),
                        worded(metric::disk_dropped_records, "torn"),
                        worded(metric::disk_dropped_records, "foreign"),
                        worded(metric::disk_dropped_records, "replaced"),
                        worded(metric::disk_dropped_records, "corrupt")));
  return facts.to_string();
}

exit_code disk_exit_code(const node_status& node) {
  if (node.lacks(link::node_parts::disk))
    return exit_code::degraded;
  if (!node.is(metric::disk_on))
    return exit_code::failed;
  const bool well = scanned(node) >= 1 && node.disk.breaker == "closed" &&
                    !node.is(metric::disk_read_only) && node.disk.faults.empty();
  return well ? exit_code::ok : exit_code::degraded;
}

verify_progress::verify_progress(const node_status& before)
    : scrubbed_before_(before.count(metric::disk_scrubbed_bytes_total)),
      failures_before_(before.count(metric::disk_checksum_failures_total)),
      unread_before_(by_word(before, metric::disk_errors_total, "read")),
      total_bytes_(before.count(metric::disk_record_bytes)) {}

bool verify_progress::take(const node_status& now) {
  if (now.lacks(link::node_parts::disk))
    return false;
  read_bytes_ = since(now.count(metric::disk_scrubbed_bytes_total), scrubbed_before_);
  failures_ = since(now.count(metric::disk_checksum_failures_total), failures_before_);
  unread_ = since(by_word(now, metric::disk_errors_total, "read"), unread_before_);
  quiet_reports_ = now.disk.verifying ? 0 : quiet_reports_ + 1;
  return quiet_reports_ >= 2;
}

evict_progress::evict_progress(const node_status& before, std::uint64_t wanted_bytes)
    : wanted_bytes_(std::min(wanted_bytes, before.count(metric::disk_bytes_capacity))),
      pages_before_(before.count(metric::disk_records)),
      evicted_before_(before.count(metric::disk_evictions_total)) {}

evict_progress::state evict_progress::take(const node_status& now) {
  if (now.lacks(link::node_parts::disk))
    return state::going_on;
  const auto pages = now.count(metric::disk_records);
  const auto free = since(now.count(metric::disk_bytes_capacity), now.count(metric::disk_bytes));
  const auto evicted = since(now.count(metric::disk_evictions_total), evicted_before_);
  const bool changed = free != free_bytes_ || evicted != evicted_;
  unchanged_ = changed ? 0 : unchanged_ + 1;
  free_bytes_ = free;
  evicted_ = evicted;
  pages_left_ = pages;
  if (wanted_bytes_ != 0 && free >= wanted_bytes_)
    return state::reached;
  // The room of evicted pages becomes free only later, file by file.
  const bool all_gone = evicted >= pages_before_ || pages == 0;
  with_all_gone_ = all_gone && free <= most_free_bytes_ ? with_all_gone_ + 1 : 0;
  most_free_bytes_ = std::max(most_free_bytes_, free);
  if (with_all_gone_ >= reports_until_free)
    return wanted_bytes_ == 0 ? state::reached : state::stuck;
  return unchanged_ >= reports_until_stuck ? state::stuck : state::going_on;
}

} // namespace peercache::cli
