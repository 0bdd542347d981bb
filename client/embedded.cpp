#include "client/embedded.hpp"

namespace peercache::client {

result<std::unique_ptr<embedded_cache>> embedded_cache::start(const config::node_config& config,
                                                              client_options options) {
  std::unique_ptr<embedded_cache> made{new embedded_cache};
  auto node = actors::node::start(config);
  if (!node)
    return node.error();
  made->node_ = std::move(*node);
  options.node_host = made->node_->self().host;
  options.node_port = made->node_->self().control_port;
  options.cluster = config.cluster.name;
  options.tls = config.tls;
  auto client = cache_client::connect(options);
  if (!client)
    return client.error();
  made->client_ = std::move(*client);
  return made;
}

} // namespace peercache::client
