#include "python/worker_start.hpp"

#include "client/options.hpp"
#include "python/open_cache.hpp"

namespace peercache::python {

result<client::worker_options> worker_options_of(const std::map<std::string, std::string>& given) {
  auto loaded = load_options(given, false);
  if (!loaded)
    return loaded.error();
  auto tls = client::tls_of(loaded->config);
  if (!tls)
    return tls.error();
  const auto reader = client::options_of(loaded->config);
  client::worker_options options;
  options.insecure_cluster = loaded->config.cluster.insecure;
  options.cluster = reader.cluster;
  options.rails = reader.rails;
  options.node_host = reader.node_host;
  options.node_port = reader.node_port;
  options.tls = std::move(*tls);
  options.channels_per_peer_max = reader.channels_per_peer_max;
  options.bounce_bytes = reader.bounce_bytes;
  return options;
}

} // namespace peercache::python
