#pragma once

#include "client/embedded.hpp"
#include "common/result.hpp"

#include <map>
#include <memory>
#include <string>

namespace peercache::python {

/// The arguments of a Python program that opens the cache.
struct open_request {
  std::map<std::string, std::string> options; ///< By the names of the option table.
  bool embedded = false;                      ///< A node is started in this process.
  bool wait_for_node = true;                  ///< The value of client_options::wait_for_node.
};

/// A client, and the node that lives in this process, if any.
struct opened_cache {
  std::shared_ptr<client::cache_client> client; ///< Keeps the embedded node as well.
  client::client_options options;
  std::string node_address; ///< "host:port" of the control port.
};

/// Makes a client out of `request.options`, PEERCACHE_* variables and the file that
/// PEERCACHE_CONFIG names, in this order. The first call in a process sets up its log. Threads:
/// any. Errors: `invalid_argument` for the options, else why there is no connection or no node.
result<opened_cache> open_cache(const open_request& request);

/// Clients of this process that were opened and have not ended yet. Threads: any.
int clients_alive() noexcept;
/// Forgets the parent's clients in a forked child.
void forget_clients() noexcept;

} // namespace peercache::python
