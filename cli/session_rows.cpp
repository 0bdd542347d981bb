#include "cli/session_rows.hpp"

#include "cli/key_spaces.hpp"
#include "cli/output.hpp"
#include "common/printable.hpp"
#include "link/cluster_health.hpp"
#include "metrics/metric_table.hpp"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <optional>
#include <string_view>

namespace peercache::cli {

using metrics::metric;

namespace {

/// The parts of a client's name, "client-PID/VERSION".
struct client_name {
  std::optional<std::int64_t> pid;
  std::string version;
};

client_name parts_of(const std::string& name) {
  const auto dash = name.find('-');
  const auto slash = name.find('/');
  if (dash == std::string::npos || slash == std::string::npos || slash < dash)
    return {};
  std::int64_t pid = 0;
  const auto* end = name.data() + slash;
  const auto read = std::from_chars(name.data() + dash + 1, end, pid);
  if (read.ec != std::errc{} || read.ptr != end || pid <= 0)
    return {};
  return {pid, name.substr(slash + 1)};
}

/// The sum of the metric over its labels; of those series only whose first word is `word`, unless
/// that is empty.
std::uint64_t sum_of(const metrics::samples& totals, metric which, std::string_view word = {}) {
  double sum = 0;
  for (const auto& [series, value] : totals.values())
    if (series.id == which && (word.empty() || series.words[0] == word))
      sum += value;
  return static_cast<std::uint64_t>(sum);
}

} // namespace

nlohmann::json session_json(const std::string& node, const link::session_row& row) {
  const auto name = parts_of(row.client);
  auto misses = nlohmann::json::object();
  for (const auto& [series, value] : row.totals.values())
    if (series.id == metric::misses_total && value > 0)
      misses[series.words[0]] = static_cast<std::uint64_t>(value);
  auto spaces = nlohmann::json::array();
  for (const auto& each : row.spaces) {
    auto fields = nlohmann::json::array();
    for (const auto& field : each.fields)
      fields.push_back(peer_text(field));
    spaces.push_back({{"space", to_string(space_id{each.space})},
                      {"door", peer_text(each.door)},
                      {"fields", fields},
                      {"asked", each.asked},
                      {"stored", each.stored}});
  }
  return {{"node", node},
          {"client", row.client},
          {"pid", name.pid ? nlohmann::json(*name.pid) : nlohmann::json()},
          {"version", name.version},
          {"opened_unix_ms", row.opened_ms},
          {"silent", row.silent},
          {"slots", row.slots},
          {"hits", sum_of(row.totals, metric::hits_total)},
          {"misses", misses},
          {"sets", sum_of(row.totals, metric::pages_total, "set")},
          {"slow_path", row.slow_path},
          {"spaces", spaces},
          {"get_bytes", sum_of(row.totals, metric::bytes_total, "get")},
          {"set_bytes", sum_of(row.totals, metric::bytes_total, "set")}};
}

std::vector<std::string> session_cells(const std::string& node, const link::session_row& row) {
  const auto name = parts_of(row.client);
  return {node,
          name.pid ? std::to_string(*name.pid) : peer_text(row.client),
          peer_text(name.version),
          link::time_text(row.opened_ms),
          row.silent              ? "silent"
          : row.slow_path.empty() ? "connected"
                                  : "slow path",
          human_count(row.slots),
          human_count(sum_of(row.totals, metric::hits_total)),
          human_count(sum_of(row.totals, metric::misses_total)),
          human_count(sum_of(row.totals, metric::pages_total, "set"))};
}

std::string session_lines(const std::string& node, const link::session_row& row) {
  const auto name = parts_of(row.client);
  const auto who =
      fmt::format("{} {}", node, name.pid ? std::to_string(*name.pid) : peer_text(row.client));
  std::string text;
  if (!row.slow_path.empty())
    text += fmt::format("{}: slow path: {}\n", who, peer_text(row.slow_path));
  for (const auto& each : row.spaces)
    text += fmt::format("{}: {}: asked for {} pages, stored {}\n", who, space_text(each),
                        human_count(each.asked), human_count(each.stored));
  return text;
}

} // namespace peercache::cli
