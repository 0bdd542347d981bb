#pragma once

#include "client/cache_client.hpp"
#include "common/result.hpp"
#include "config/node_config.hpp"
#include "net/tls_context.hpp"

#include <memory>

namespace peercache::client {

/// Takes a client's options (`client_options` in client/cache_client.hpp, which has the defaults of
/// programs without a configuration) from a loaded configuration: the `client.*`, `set.*`,
/// `cluster.*`, `tls.*` and `data.*` rows of the option table.
client_options options_of(const config::node_config& config);

/// Opens the TLS of a configuration, for the connection of a worker to its node; null when it has
/// none.
result<std::shared_ptr<net::tls_context>> tls_of(const config::node_config& config);

} // namespace peercache::client
