#include "actors/monitoring/status_json.hpp"

#include "metrics/metric_table.hpp"

#include <nlohmann/json.hpp>

namespace peercache::actors {

using metrics::metric;

std::string status_json(const node_report& node) {
  const auto& now = node.samples;
  // Numbers that actors did not tell are null, not 0.
  const auto count = [&now](metric id) {
    return now.has(id) ? nlohmann::ordered_json(now.count(id)) : nlohmann::ordered_json();
  };
  const auto flag = [&now](metric id) {
    return now.has(id) ? nlohmann::ordered_json(now.value(id) != 0) : nlohmann::ordered_json();
  };
  const nlohmann::ordered_json said = {{"version", node.version},
                                       {"ready", now.value(metric::ready) != 0},
                                       {"unready_reason", node.unready_reason},
                                       {"uptime_ms", now.milliseconds(metric::uptime_seconds)},
                                       {"sessions", count(metric::sessions)},
                                       {"data_plane", node.data_plane},
                                       {"tls", now.value(metric::tls) != 0},
                                       {"insecure", now.value(metric::insecure) != 0},
                                       {"term", count(metric::view_term)},
                                       {"view", count(metric::view_version)},
                                       {"members", count(metric::members)},
                                       {"leader", flag(metric::is_leader)},
                                       {"pool_bytes_used", count(metric::pool_bytes_used)},
                                       {"pool_bytes_capacity", count(metric::pool_bytes_capacity)},
                                       {"pool_pages", count(metric::pool_pages)},
                                       {"puts", count(metric::pool_puts_total)},
                                       {"evictions", count(metric::evictions_total)},
                                       {"directory_records", count(metric::directory_records)},
                                       {"silent", node.silent}};
  // Bytes that are not UTF-8 are replaced: `dump` would throw otherwise.
  return said.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

} // namespace peercache::actors
