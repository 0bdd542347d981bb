#pragma once

#include "client/cache_client.hpp"
#include "config/node_config.hpp"

namespace peercache::client {

/// Takes a client's options (`client_options` in client/cache_client.hpp, which has the defaults of
/// programs without a configuration) from a loaded configuration: the `client.*`, `set.*`,
/// `cluster.*` and `data.*` rows of the option table.
client_options options_of(const config::node_config& config);

} // namespace peercache::client
