#include "actors/status_json.hpp"

#include "metrics/metric_table.hpp"

#include <nlohmann/json.hpp>

namespace peercache::actors {

using metrics::metric;

std::string status_json(const node_report& node) {
  const auto& now = node.samples;
  const nlohmann::ordered_json said = {
      {"version", node.version},
      {"ready", now.value(metric::ready) != 0},
      {"unready_reason", node.unready_reason},
      {"uptime_ms", now.milliseconds(metric::uptime_seconds)},
      {"sessions", now.count(metric::sessions)},
      {"data_plane", node.data_plane},
      {"tls", now.value(metric::tls) != 0},
      {"insecure", now.value(metric::insecure) != 0},
      {"term", now.count(metric::view_term)},
      {"view", now.count(metric::view_version)},
      {"members", now.count(metric::members)},
      {"leader", now.value(metric::is_leader) != 0},
      {"pool_bytes_used", now.count(metric::pool_bytes_used)},
      {"pool_bytes_capacity", now.count(metric::pool_bytes_capacity)},
      {"pool_pages", now.count(metric::pool_pages)},
      {"puts", now.count(metric::pool_puts_total)},
      {"evictions", now.count(metric::evictions_total)},
      {"directory_records", now.count(metric::directory_records)},
      {"silent", node.silent}};
  // Bytes that are not UTF-8 are replaced: `dump` would throw otherwise.
  return said.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

} // namespace peercache::actors
