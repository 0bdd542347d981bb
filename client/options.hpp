#pragma once

#include "client/values/client_options.hpp"
#include "common/result.hpp"
#include "config/node_config.hpp"
#include "net/tls_context.hpp"

#include <memory>

namespace peercache::client {

/// Takes a client's options (`client_options` in client/values/client_options.hpp, which has the
/// defaults of programs without a configuration) from a loaded configuration: the `client.*`,
/// `set.*`, `cluster.*`, `tls.*` and `data.*` rows of the option table.
client_options options_of(const config::node_config& config);

/// Opens the certificates that `config` names under `tls.*`, for the ports of a hand-over worker
/// and its connections to other workers and to its node. Null when `config` names none.
result<std::shared_ptr<net::tls_context>> tls_of(const config::node_config& config);

} // namespace peercache::client
