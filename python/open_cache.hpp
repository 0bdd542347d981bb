#pragma once

#include "client/embedded.hpp"
#include "common/result.hpp"
#include "config/load.hpp"

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

/// The configuration of these options, PEERCACHE_* variables and the file that PEERCACHE_CONFIG
/// names, in this order of precedence. The first call that succeeds in a process sets up its log.
/// Threads: any. Errors: `invalid_argument`; `io_failed` when the file cannot be read.
///
/// @param embedded whether the options are those of a node, which are checked against each other
result<config::loaded_config> load_options(const std::map<std::string, std::string>& options,
                                           bool embedded);

/// Opens a client with the options of `load_options`. Threads: any. Errors: `invalid_argument` for
/// the options, else why there is no connection or no node.
result<opened_cache> open_cache(const open_request& request);

} // namespace peercache::python
