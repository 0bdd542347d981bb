#pragma once

#include "client/embedded.hpp"
#include "common/result.hpp"

#include <map>
#include <memory>
#include <string>

namespace peercache::python {

/// A Python program's request to open the cache.
struct open_request {
  std::map<std::string, std::string> options; ///< Values by the names of the option table.
  bool embedded = false;                      ///< Whether a node is started in this process.
  bool wait_for_node = true;                  ///< Becomes client_options::wait_for_node.
};

/// A client, and the node that lives in this process when one was asked for.
struct opened_cache {
  /// The client; it keeps the embedded node alive as well.
  std::shared_ptr<client::cache_client> client;
  client::client_options options;
  std::string node_address; ///< Address of the node's control port, "host:port".
};

/// Opens a client with the options of `request.options`, PEERCACHE_* variables and the file that
/// PEERCACHE_CONFIG names, in this order of precedence. The first call in a process sets up its
/// log. Threads: any. Errors: `invalid_argument` for the options, else why there is no connection
/// or no node.
result<opened_cache> open_cache(const open_request& request);

/// How many clients of this process were opened and have not ended yet. Threads: any.
int clients_alive() noexcept;
/// Forgets, in a forked child, the clients of the parent.
void forget_clients() noexcept;

} // namespace peercache::python
