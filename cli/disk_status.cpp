#include "cli/disk_status.hpp"

#include "cli/output.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace peercache::cli {

namespace {

double ms_at(const link::latency_report& latency, double share) {
  return static_cast<double>(latency.snapshot().quantile_ns(share)) / 1e6;
}

nlohmann::json latency_json(const link::latency_report& latency) {
  return {
      {"count", latency.count}, {"p50_ms", ms_at(latency, 0.5)}, {"p99_ms", ms_at(latency, 0.99)}};
}

std::string latency_text(const link::latency_report& latency) {
  return latency.count == 0 ? std::string()
                            : fmt::format(", {:.2f} ms (p50), {:.2f} ms (p99)", ms_at(latency, 0.5),
                                          ms_at(latency, 0.99));
}

std::string skips_text(const link::disk_report& disk) {
  std::string text;
  for (const auto& [reason, pages] : disk.skipped)
    if (pages != 0)
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", human_count(pages), reason);
  return text.empty() ? "none" : text;
}

std::string state_of(const link::disk_report& disk) {
  if (!disk.on)
    return "off: " + disk.why_off;
  if (disk.scanned < 1)
    return fmt::format("being scanned, {:.0f} % done", disk.scanned * 100);
  if (disk.breaker != "closed")
    return fmt::format("left alone because it failed (breaker {})", disk.breaker);
  if (disk.read_only)
    return "read-only: the device is full";
  return disk.verifying ? "on, being verified" : "on";
}

} // namespace

nlohmann::json to_json(const link::disk_report& disk) {
  return {{"on", disk.on},
          {"why_off", disk.why_off},
          {"path", disk.path},
          {"store", disk.store},
          {"io", disk.io},
          {"why_fallback", disk.why_fallback},
          {"scanned", disk.scanned},
          {"bytes_used", disk.bytes_used},
          {"bytes_capacity", disk.bytes_capacity},
          {"pages", disk.pages},
          {"page_bytes", disk.page_bytes},
          {"files", disk.files},
          {"queue_bytes", disk.queue_bytes},
          {"queue_pages", disk.queue_pages},
          {"writes", disk.writes},
          {"written_bytes", disk.written_bytes},
          {"write_errors", disk.write_errors},
          {"skipped", disk.skipped},
          {"reads", disk.reads},
          {"read_bytes", disk.read_bytes},
          {"read_errors", disk.read_errors},
          {"checksum_failures", disk.checksum_failures},
          {"evicted", disk.evicted},
          {"expired", disk.expired},
          {"scrubbed_bytes", disk.scrubbed_bytes},
          {"breaker", disk.breaker},
          {"breaker_opened", disk.breaker_opened},
          {"read_only", disk.read_only},
          {"verifying", disk.verifying},
          {"recovered",
           {{"pages", disk.recovered},
            {"torn", disk.torn},
            {"foreign", disk.foreign},
            {"replaced", disk.replaced},
            {"corrupt", disk.corrupt}}},
          {"write_latency", latency_json(disk.write_latency)},
          {"read_latency", latency_json(disk.read_latency)}};
}

nlohmann::json to_json(const link::promote_report& promotes) {
  return {{"promoted", promotes.promoted},    {"joined", promotes.joined},
          {"in_pool", promotes.in_pool},      {"missed", promotes.missed},
          {"refused", promotes.refused},      {"warmed", promotes.warmed},
          {"on_its_way", promotes.on_its_way}};
}

std::string to_text(const link::disk_report& disk, const link::promote_report& promotes) {
  fact_list facts;
  facts.add("disk tier", state_of(disk));
  if (!disk.on)
    return facts.to_string();
  facts.add("folder", disk.path);
  facts.add("store", fmt::format("{} over {}{}", disk.store, disk.io,
                                 disk.why_fallback.empty() ? "" : ": " + disk.why_fallback));
  facts.add("files", fmt::format("{}, {} of {}", human_count(disk.files),
                                 human_bytes(disk.bytes_used), human_bytes(disk.bytes_capacity)));
  facts.add("pages", fmt::format("{}, {}", human_count(disk.pages), human_bytes(disk.page_bytes)));
  facts.add("queue", fmt::format("{} pages, {}", human_count(disk.queue_pages),
                                 human_bytes(disk.queue_bytes)));
  facts.add("written", fmt::format("{} pages, {}, {} errors{}", human_count(disk.writes),
                                   human_bytes(disk.written_bytes), human_count(disk.write_errors),
                                   latency_text(disk.write_latency)));
  facts.add("not written", skips_text(disk));
  facts.add("read", fmt::format("{} pages, {}, {} errors{}", human_count(disk.reads),
                                human_bytes(disk.read_bytes), human_count(disk.read_errors),
                                latency_text(disk.read_latency)));
  facts.add("wrong checksums", human_count(disk.checksum_failures));
  facts.add("promotes", fmt::format("{} pages ({} for an exists), {} missed, {} refused, {} on "
                                    "their way",
                                    human_count(promotes.promoted), human_count(promotes.warmed),
                                    human_count(promotes.missed), human_count(promotes.refused),
                                    human_count(promotes.on_its_way)));
  facts.add("evicted", fmt::format("{} pages, {} were too old", human_count(disk.evicted),
                                   human_count(disk.expired)));
  facts.add("scrubbed", human_bytes(disk.scrubbed_bytes));
  facts.add("found at start",
            fmt::format("{} pages; dropped {} torn, {} foreign, {} replaced, {} corrupt",
                        human_count(disk.recovered), human_count(disk.torn),
                        human_count(disk.foreign), human_count(disk.replaced),
                        human_count(disk.corrupt)));
  return facts.to_string();
}

exit_code exit_code_of(const link::disk_report& disk) noexcept {
  if (!disk.on)
    return exit_code::failed;
  const bool well = disk.scanned >= 1 && disk.breaker == "closed" && !disk.read_only;
  return well ? exit_code::ok : exit_code::degraded;
}

verify_progress::verify_progress(const link::disk_report& before)
    : scrubbed_before_(before.scrubbed_bytes), failures_before_(before.checksum_failures),
      unread_before_(before.read_errors), total_bytes_(before.page_bytes) {}

bool verify_progress::take(const link::disk_report& now) {
  read_bytes_ = now.scrubbed_bytes - std::min(scrubbed_before_, now.scrubbed_bytes);
  failures_ = now.checksum_failures - std::min(failures_before_, now.checksum_failures);
  unread_ = now.read_errors - std::min(unread_before_, now.read_errors);
  quiet_reports_ = now.verifying ? 0 : quiet_reports_ + 1;
  return quiet_reports_ >= 2;
}

evict_progress::evict_progress(const link::disk_report& before, std::uint64_t wanted_bytes)
    : wanted_bytes_(std::min(wanted_bytes, before.bytes_capacity)), pages_before_(before.pages),
      evicted_before_(before.evicted) {}

evict_progress::state evict_progress::take(const link::disk_report& now) {
  const auto free = now.bytes_capacity - std::min(now.bytes_used, now.bytes_capacity);
  const auto evicted = now.evicted - std::min(evicted_before_, now.evicted);
  const bool changed = free != free_bytes_ || evicted != evicted_;
  unchanged_ = changed ? 0 : unchanged_ + 1;
  free_bytes_ = free;
  evicted_ = evicted;
  pages_left_ = now.pages;
  if (wanted_bytes_ != 0 && free >= wanted_bytes_)
    return state::reached;
  // The room of pages that are gone is free later, file by file.
  const bool all_gone = evicted >= pages_before_ || now.pages == 0;
  with_all_gone_ = all_gone && free <= most_free_bytes_ ? with_all_gone_ + 1 : 0;
  most_free_bytes_ = std::max(most_free_bytes_, free);
  if (with_all_gone_ >= reports_until_free)
    return wanted_bytes_ == 0 ? state::reached : state::stuck;
  return unchanged_ >= reports_until_stuck ? state::stuck : state::going_on;
}

} // namespace peercache::cli
