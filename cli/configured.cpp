#include "cli/configured.hpp"

#include "config/load.hpp"
#include "config/process_sources.hpp"

#include <fmt/format.h>

namespace peercache::cli {

namespace {

/// The address of the node that this host's clients use: client.node_host and client.node_port, and
/// where these are not given what the node itself has in net.*.
std::string node_of(const config::loaded_config& loaded) {
  const auto given = [&](std::string_view name) {
    return loaded.value_of(name).from.kind != config::origin_kind::default_value;
  };
  const auto& client = loaded.config.client;
  const auto& net = loaded.config.net;
  auto host = given("client.node_host") ? client.node_host : net.advertise;
  if (host == "0.0.0.0" || host == "*")
    host = "127.0.0.1";
  if (host == "::")
    host = "::1";
  const bool any_port = net.control_port == 0; // The node takes any free port.
  const auto port = given("client.node_port") || any_port ? client.node_port : net.control_port;
  const bool v6 = host.find(':') != std::string::npos;
  return fmt::format("{}:{}", v6 ? "[" + host + "]" : host, port);
}

} // namespace

result<void> take_configuration(global_options& globals) {
  auto sources = config::sources_of_process(std::nullopt);
  if (!sources)
    return sources.error();
  auto loaded = config::merge_sources(*sources);
  if (!loaded)
    return loaded.error();
  globals.node = globals.configured_node = node_of(*loaded);
  globals.configuration = sources->file ? sources->file->path : "";
  globals.call_timeout = loaded->config.client.timeout;
  globals.cluster = loaded->config.cluster.name;
  globals.tls = loaded->config.tls;
  return {};
}

} // namespace peercache::cli
