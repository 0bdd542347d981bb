#include "cli/bench/bench_row.hpp"

#include "cli/output.hpp"

#include <fmt/format.h>

namespace peercache::cli {

namespace {

std::string in_words(const bench_row& row, double per_second) {
  return row.kind == ratio_kind::rate || row.page_bytes == 0
             ? human_count(static_cast<std::uint64_t>(per_second)) + " keys/s"
             : fmt::format("{:.2f} GB/s", per_second / 1e9);
}

std::string name_of(const bench_row& row) {
  return row.store.empty() ? row.name : fmt::format("{} ({})", row.name, row.store);
}

std::string target_of(const bench_row& row) {
  if (!row.target)
    return "";
  if (row.kind == ratio_kind::rate)
    return fmt::format(">= {} keys/s {}", human_count(static_cast<std::uint64_t>(*row.target)),
                       row.rate_is_met() ? "ok" : "MISSED");
  return fmt::format("{} {:.2f} {}", row.kind == ratio_kind::latency ? "<=" : ">=", *row.target,
                     row.rate_is_met() ? "ok" : "MISSED");
}

std::string gil_target_of(const bench_row& row) {
  if (!row.gil_held_max)
    return {};
  return fmt::format(", < {:.0f} % {}", *row.gil_held_max * 100,
                     row.gil_is_met() ? "ok" : "MISSED");
}

/// What calls cost and how many keys a core answers, a line each, where that was measured.
std::string call_notes(const bench_row& row) {
  std::string notes;
  if (row.call)
    notes += fmt::format(
        "{} of {}: {:.1f} us of processor and {:.1f} context switches a call, client "
        "and nodes together{}{}\n",
        row.name, row.batch, row.call->cpu_us, row.call->switches,
        row.limit_call ? fmt::format("; the limit {:.1f} us and {:.1f}", row.limit_call->cpu_us,
                                     row.limit_call->switches)
                       : "",
        row.redis_p50_us ? fmt::format("; redis-server answers in {:.1f} us", *row.redis_p50_us)
                         : "");
  if (row.keys_per_node_second)
    notes += fmt::format("{} of {}: one core of the asked node answers {}\n", row.name, row.batch,
                         in_words(row, *row.keys_per_node_second));
  return notes;
}

} // namespace

double bench_row::ratio() const {
  return kind == ratio_kind::latency ? rounds.latency_ratio() : rounds.throughput_ratio();
}

double bench_row::pages_per_second() const {
  return page_bytes == 0 ? 0 : rounds.operation_per_second() / static_cast<double>(page_bytes);
}

bool bench_row::rate_is_met() const {
  if (!target)
    return true;
  switch (kind) {
  case ratio_kind::throughput:
    return ratio() >= *target;
  case ratio_kind::latency:
    return ratio() <= *target;
  case ratio_kind::rate:
    return rounds.operation_per_second() >= *target;
  }
  return false;
}

nlohmann::json bench_row::to_json() const {
  constexpr const char* kinds[] = {"throughput", "latency", "rate"};
  nlohmann::json row = {
      {"name", name},
      {"page_bytes", page_bytes},
      {"batch", batch},
      {"verify", verify},
      {"bytes_per_second", page_bytes == 0 ? 0.0 : rounds.operation_per_second()},
      {"pages_per_second", pages_per_second()},
      {"limit_bytes_per_second", page_bytes == 0 ? 0.0 : rounds.limit_per_second()},
      {"ratio", ratio()},
      {"p50_us", rounds.operation_p50_us()},
      {"p99_us", rounds.operation_p99_us()},
      {"limit_p50_us", rounds.limit_p50_us()},
      {"ratio_of", kinds[static_cast<std::size_t>(kind)]},
      {"rounds", rounds.rounds()},
      {"target", target ? nlohmann::json(*target) : nlohmann::json()},
      {"met", met()}};
  if (page_bytes == 0) {
    row["keys_per_second"] = rounds.operation_per_second();
    row["limit_keys_per_second"] = rounds.limit_per_second();
  }
  if (directory_messages)
    row["directory_messages"] = *directory_messages;
  if (fences_per_batch)
    row["fences_per_batch"] = *fences_per_batch;
  if (plan_ns_per_piece)
    row["plan_ns_per_piece"] = *plan_ns_per_piece;
  if (!store.empty())
    row["store"] = store;
  if (gil_held)
    row["gil_held"] = *gil_held;
  if (gil_held && gil_held_max)
    row["gil_held_max"] = *gil_held_max;
  if (callers)
    row["callers"] = *callers;
  if (limit_callers)
    row["limit_callers"] = *limit_callers;
  if (cpu) {
    row["cpu_seconds_per_gib"] = cpu->seconds_per_gib;
    row["limit_cpu_seconds_per_gib"] = cpu->limit_seconds_per_gib;
  }
  if (call) {
    row["cpu_us_per_call"] = call->cpu_us;
    row["switches_per_call"] = call->switches;
  }
  if (limit_call) {
    row["limit_cpu_us_per_call"] = limit_call->cpu_us;
    row["limit_switches_per_call"] = limit_call->switches;
  }
  if (keys_per_node_second)
    row["keys_per_node_second"] = *keys_per_node_second;
  if (redis_p50_us)
    row["redis_p50_us"] = *redis_p50_us;
  return row;
}

nlohmann::json to_json(const std::vector<bench_row>& rows) {
  auto results = nlohmann::json::array();
  for (const auto& row : rows)
    results.push_back(row.to_json());
  return {{"results", results}};
}

std::string to_text(const std::vector<bench_row>& rows, bool colour) {
  using side = text_table::align;
  text_table table({{"OPERATION"},
                    {"PAGE", side::right},
                    {"BATCH", side::right},
                    {"VERIFY"},
                    {"RATE", side::right},
                    {"PAGES/s", side::right},
                    {"LIMIT", side::right},
                    {"P50 us", side::right},
                    {"P99 us", side::right},
                    {"LIMIT P50 us", side::right},
                    {"RATIO", side::right},
                    {"TARGET"}});
  for (const auto& row : rows)
    table.add_row(
        {name_of(row), row.page_bytes == 0 ? "" : human_bytes(row.page_bytes),
         std::to_string(row.batch), row.verify ? "yes" : "no",
         in_words(row, row.rounds.operation_per_second()),
         row.page_bytes == 0 ? "" : human_count(static_cast<std::uint64_t>(row.pages_per_second())),
         in_words(row, row.rounds.limit_per_second()),
         fmt::format("{:.1f}", row.rounds.operation_p50_us()),
         fmt::format("{:.1f}", row.rounds.operation_p99_us()),
         fmt::format("{:.1f}", row.rounds.limit_p50_us()), fmt::format("{:.2f}", row.ratio()),
         target_of(row)});
  std::string text = table.to_string(colour);
  for (const auto& row : rows)
    if (row.fences_per_batch)
      text += fmt::format("{} of {}: {:.2f} round trips of validation per batch\n", row.name,
                          human_bytes(row.page_bytes), *row.fences_per_batch);
  for (const auto& row : rows)
    if (row.plan_ns_per_piece)
      text += fmt::format("{}: decode plans a piece in {:.0f} ns\n", name_of(row),
                          *row.plan_ns_per_piece);
  for (const auto& row : rows)
    if (row.gil_held)
      text += fmt::format("{}: Python's lock is held for {:.2f} % of a call{}\n", name_of(row),
                          *row.gil_held * 100, gil_target_of(row));
  for (const auto& row : rows)
    if (row.cpu)
      text += fmt::format("{} of {}: {:.3f} CPU seconds per GiB, the limit {:.3f}\n", name_of(row),
                          human_bytes(row.page_bytes), row.cpu->seconds_per_gib,
                          row.cpu->limit_seconds_per_gib);
  for (const auto& row : rows)
    text += call_notes(row);
  return text;
}

} // namespace peercache::cli
