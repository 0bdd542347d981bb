#include "config/validate.hpp"

#include "common/assert.hpp"
#include "common/limits.hpp"
#include "common/loopback.hpp"
#include "config/units.hpp"

#include <algorithm>
#include <cctype>
#include <utility>

namespace peercache::config {
namespace {

constexpr std::size_t name_prefix_bytes_max = 64;

/// Names an option with its value and origin, as the text of each fault begins: "`net.bind` is
/// 0.0.0.0 (flag --net-bind)".
std::string what(const loaded_config& loaded, std::string_view name) {
  const auto& entry = loaded.value_of(name);
  return '`' + std::string(name) + "` is " + value_text(*entry.opt, entry.value) + " (" +
         to_string(entry.from) + ')';
}

void check_names(const loaded_config& loaded, std::vector<std::string>& faults) {
  for (std::string_view option_name : {"node.name", "cluster.name"}) {
    const auto& name = std::get<std::string>(loaded.value_of(option_name).value);
    const bool printable =
        std::all_of(name.begin(), name.end(), [](char c) { return c > ' ' && c <= '~'; });
    if (name.empty() || name.size() > limits::node_name_bytes_max || !printable)
      faults.push_back(
          what(loaded, option_name) +
          ": names travel in every greeting and have 1 to 255 bytes of printable ASCII "
          "without spaces; set another one");
  }
  const auto& prefix = loaded.config.pool.name_prefix;
  const bool portable = std::all_of(prefix.begin(), prefix.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-';
  });
  if (!portable || prefix.size() > name_prefix_bytes_max)
    faults.push_back(what(loaded, "pool.name_prefix") +
                     ": it becomes part of a file name; use at most 64 letters, digits, `.`, `_` "
                     "and `-`");
}

bool is_wildcard(std::string_view host) {
  return host == "0.0.0.0" || host == "::" || host == "*";
}

void check_addresses(const loaded_config& loaded, std::vector<std::string>& faults) {
  const auto& config = loaded.config;
  const auto refuse_open = [&](std::string_view option_name, const std::string& host,
                               const char* why) {
    if (is_loopback(host) || config.cluster.insecure)
      return;
    faults.push_back(what(loaded, option_name) + ": other hosts could connect, and " + why +
                     "; bind to 127.0.0.1, or set `insecure_cluster = true` if the network is "
                     "trusted");
  };
  if (!config.tls.given()) {
    refuse_open("net.bind", config.net.bind,
                "peers are not authenticated, so anyone who reaches the port could read and write "
                "the cache (`tls.*` lets in members alone)");
    // `metrics.bind` is `net.bind` by default: then the fault of `net.bind` is enough.
    if (config.metrics.enabled && config.metrics.bind != config.net.bind)
      refuse_open("metrics.bind", config.metrics.bind,
                  "without `tls.*` anyone who reaches the HTTP port could read names and numbers");
  }
  const bool has_neighbours = !config.discovery.seeds.empty() && is_loopback(config.net.bind);
  if (has_neighbours && !config.tls.given() && !config.cluster.insecure && !config.dev)
    faults.push_back(what(loaded, "discovery.seeds") +
                     ": every user of this host reaches nodes on loopback, and without `tls.*` "
                     "could read and write their cache; set `tls.*`, or `insecure_cluster = true` "
                     "if the users of this host are trusted");
  if (is_wildcard(config.net.advertise))
    faults.push_back(what(loaded, "net.advertise") +
                     ": nobody can connect to a wildcard address; set `net.advertise` to the "
                     "address or name under which other hosts reach this one");
  else if (is_loopback(config.net.advertise) && !is_loopback(config.net.bind))
    faults.push_back(what(loaded, "net.advertise") + " and " + what(loaded, "net.bind") +
                     ": other hosts would look for this node on themselves; set `net.advertise` to "
                     "the address or name under which other hosts reach this one");
}

void check_tls(const loaded_config& loaded, std::vector<std::string>& faults) {
  const auto& tls = loaded.config.tls;
  if (!tls.given())
    return;
  for (const auto& [option_name, path] :
       {std::pair{"tls.cert", &tls.certificate}, {"tls.key", &tls.key}, {"tls.ca", &tls.authority}})
    if (path->empty())
      faults.push_back(what(loaded, option_name) +
                       ": TLS takes a certificate, its key and the CA's certificate; set "
                       "`tls.cert`, `tls.key` and `tls.ca`, or none of them");
  if (loaded.config.tls_data == tls_data_mode::full &&
      loaded.config.data.plane == data_plane_mode::verbs)
    faults.push_back(what(loaded, "tls.data") + " and " + what(loaded, "data_plane") +
                     ": pages that travel by RDMA are not inside TLS; set `tls.data = handshake`, "
                     "or `data_plane = auto` to take TCP");
}

void check_ports(const loaded_config& loaded, std::vector<std::string>& faults) {
  const auto& net = loaded.config.net;
  const auto differ = [&](std::string_view a, std::uint16_t x, std::string_view b,
                          std::uint16_t y) {
    if (x == y && x != 0)
      faults.push_back(what(loaded, a) + " and " + what(loaded, b) +
                       ": two services cannot share a port; set different ones");
  };
  differ("net.lookup_port", net.lookup_port, "net.control_port", net.control_port);
  differ("net.lookup_port", net.lookup_port, "net.data_port", net.data_port);
  differ("net.control_port", net.control_port, "net.data_port", net.data_port);
  if (!loaded.config.metrics.enabled)
    return;
  differ("net.lookup_port", net.lookup_port, "net.http_port", net.http_port);
  differ("net.control_port", net.control_port, "net.http_port", net.http_port);
  differ("net.data_port", net.data_port, "net.http_port", net.http_port);
}

void check_times_and_pool(const loaded_config& loaded, std::vector<std::string>& faults) {
  const auto& config = loaded.config;
  if (config.discovery.expiry < 3 * config.discovery.heartbeat)
    faults.push_back(
        what(loaded, "discovery.expiry") + " and " + what(loaded, "discovery.heartbeat") +
        ": two lost heartbeats would expel a healthy node; set `discovery.expiry` to " +
        format_duration(3 * config.discovery.heartbeat) + " or more");
  if (!(config.pool.free_low < config.pool.free_high))
    faults.push_back(what(loaded, "pool.free_low") + " and " + what(loaded, "pool.free_high") +
                     ": eviction would have nowhere to go from one to the other; set "
                     "`pool.free_high` above `pool.free_low`");
  if (config.pool.size_bytes < bytes_of(config.pool.huge_pages))
    faults.push_back(what(loaded, "pool.size") + " and " + what(loaded, "pool.huge_pages") +
                     ": the pool is smaller than one huge page; set a larger `pool.size` or "
                     "smaller huge pages");
}

void check_disk(const loaded_config& loaded, std::vector<std::string>& faults) {
  const auto& disk = loaded.config.disk;
  if (!disk.wanted())
    return;
  const auto& name = loaded.config.node.name;
  if (disk.path.front() != '/')
    faults.push_back(what(loaded, "disk.path") +
                     ": pages would be elsewhere when the node is started from another folder; "
                     "write a path that starts with `/`");
  if (name == "." || name == ".." || name.find('/') != std::string::npos)
    faults.push_back(what(loaded, "node.name") +
                     ": the node's folder below `disk.path` is called like this; set a name "
                     "without `/`, and not `.` or `..`");
  if (!(disk.low_watermark < disk.high_watermark))
    faults.push_back(what(loaded, "disk.low_watermark") + " and " +
                     what(loaded, "disk.high_watermark") +
                     ": eviction would have nowhere to go from one to the other; set "
                     "`disk.low_watermark` below `disk.high_watermark`");
  if (disk.ttl > std::chrono::milliseconds(0) && disk.ttl < std::chrono::seconds(1))
    faults.push_back(what(loaded, "disk.ttl") +
                     ": the age of a page on disk is known in seconds; set 1s or more, or 0s for "
                     "no limit");
}

void check_log(const loaded_config& loaded, std::vector<std::string>& faults) {
  const auto& file = loaded.config.log.file;
  if (!file.empty() && file.front() != '/')
    faults.push_back(what(loaded, "log.file") +
                     ": the log would be elsewhere when the node is started from another folder; "
                     "write a path that starts with `/`");
}

} // namespace

error joined_faults(const std::vector<std::string>& faults) {
  PEERCACHE_ASSERT(!faults.empty());
  std::string message;
  for (const auto& fault : faults)
    message += (message.empty() ? "" : "\n") + fault;
  return {errc::invalid_argument, std::move(message)};
}

result<void> validate(const loaded_config& loaded) {
  std::vector<std::string> faults;
  check_names(loaded, faults);
  check_addresses(loaded, faults);
  check_tls(loaded, faults);
  check_ports(loaded, faults);
  check_times_and_pool(loaded, faults);
  check_disk(loaded, faults);
  check_log(loaded, faults);
  if (faults.empty())
    return {};
  return joined_faults(faults);
}

} // namespace peercache::config
