#pragma once

#include "bench/raw_limits.hpp"
#include "cli/process.hpp"
#include "common/page_key.hpp"
#include "common/result.hpp"

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace peercache::cli {

/// A redis-server of this machine with one connection to it: look-ups are compared with its EXISTS,
/// since everybody knows what that costs. Listens on loopback and keeps all in memory.
///
/// Threads: one. Ownership: the server ends with this object. Errors: results; after one the
/// connection is of no use.
class redis_server {
public:
  /// Starts a server and connects; nothing where redis-server is not installed.
  static result<std::optional<redis_server>> start();

  pid_t pid() const { return server_.pid(); }
  /// Stores a value of `value_bytes` for each key.
  result<void> store(std::span<const page_key> keys, std::size_t value_bytes);
  /// Asks for each key by a command of its own, all of them at once, and waits for the answers.
  /// Errors: also when a key is not there.
  result<void> exists(std::span<const page_key> keys);

private:
  redis_server(child_process server, bench::raw_client connection)
      : server_(std::move(server)), connection_(std::move(connection)) {}
  result<void> exchange(std::size_t answers, std::string_view answer);

  child_process server_;
  bench::raw_client connection_;
  std::string commands_, answers_;
};

} // namespace peercache::cli
