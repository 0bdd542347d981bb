#include "client/options.hpp"

#include "link/rail_settings.hpp"

namespace peercache::client {

client_options options_of(const config::node_config& config) {
  client_options options;
  options.node_host = config.client.node_host;
  options.node_port = config.client.node_port;
  options.cluster = config.cluster.name;
  options.tls = config.tls;
  options.timeout = config.client.timeout;
  options.verify_own_host = config.client.verify_own_host;
  options.verify_tcp = config.client.verify_tcp;
  options.verify_rdma = config.client.verify_rdma;
  options.rails = link::rails_of(config);
  options.bounce_bytes = config.rdma.bounce_bytes;
  options.verify_sample = config.client.verify_sample;
  options.duplicate = config.set.duplicate;
  options.channels_per_peer_max = config.data.max_channels_per_peer;
  options.lookup_datagrams = config.net.lookup_datagrams;
  options.location_cache_keys = config.client.location_cache_keys;
  options.unacknowledged_bytes_max = config.client.unacknowledged_bytes_max;
  return options;
}

result<std::shared_ptr<net::tls_context>> tls_of(const config::node_config& config) {
  return net::tls_context::open_if_given(config.tls, config.cluster.name);
}

} // namespace peercache::client
