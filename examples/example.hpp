#pragma once

#include "client/embedded.hpp"
#include "common/log.hpp"
#include "config/load.hpp"

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

/// Code that all examples share, so that each of them shows one thing. Programs that use the
/// installed library talk to a peercache-node and need none of this code.
namespace peercache::examples {

/// Returns the value, or ends the program with the reason: an example has nobody to hand an error
/// to.
template <class T>
T value_or_exit(peercache::result<T> outcome) {
  if (!outcome) {
    std::fprintf(stderr, "example: %s\n", to_string(outcome.error()).c_str());
    std::exit(1);
  }
  return std::move(*outcome);
}

/// Starts a node in this process, on free ports of loopback, with a client of that node.
inline std::unique_ptr<peercache::client::embedded_cache> start_node(const std::string& name,
                                                                     const std::string& seed = "") {
  peercache::init_log(name, "error", false);
  peercache::config::sources from;
  from.flags = {{"node.name", name},       {"cluster.name", "example"}, {"pool.size", "16MiB"},
                {"net.control_port", "0"}, {"net.data_port", "0"},      {"net.http_port", "0"},
                {"log.level", "error"}};
  if (!seed.empty())
    from.flags.insert(from.flags.end(), {{"discovery.seeds", seed}, {"insecure_cluster", "true"}});
  auto loaded = value_or_exit(peercache::config::load(from));
  return value_or_exit(peercache::client::embedded_cache::start(loaded.config));
}

inline std::string address_of(peercache::client::embedded_cache& cache) {
  return "127.0.0.1:" + std::to_string(cache.node().self().control_port);
}

/// Ends the program when a result is not as the example says.
inline void expect(bool as_said, const char* what) {
  std::printf("%s: %s\n", what, as_said ? "yes" : "NO");
  if (!as_said)
    std::exit(1);
}

} // namespace peercache::examples
