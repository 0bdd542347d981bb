#pragma once

#include "actors/node/node.hpp"
#include "client/cache_client.hpp"
#include "config/node_config.hpp"

#include <memory>

namespace peercache::client {

/// A whole node inside the caller's process, and a client of it: for tests, demos and laptops. The
/// code is that of `peercache-node`; the client talks to it over loopback like to any other node.
/// Threads: as cache_client. Destruction: client first, then the node, without draining.
class embedded_cache {
public:
  /// @param config as config::load makes it; ports 0 take any free ones @param options node_host,
  /// node_port, cluster and tls are overwritten with those of the embedded node
  static result<std::unique_ptr<embedded_cache>> start(const config::node_config& config,
                                                       client_options options = {});

  actors::node& node() noexcept { return *node_; }
  cache_client& client() noexcept { return *client_; }

private:
  embedded_cache() = default;

  std::unique_ptr<actors::node> node_;
  std::unique_ptr<cache_client> client_;
};

} // namespace peercache::client
