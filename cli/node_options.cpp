#include "cli/node_options.hpp"

#include <CLI/CLI.hpp>

namespace peercache::cli {

namespace {

CLI::App& with_own_flags(CLI::App& app, node_options& into) {
  app.name("peercache-node");
  app.description("One node of a PeerCache cluster: the page pool of this host and its part of the "
                  "directory.");
  app.add_option("--config", into.config_path,
                 "Configuration file [default: the one that PEERCACHE_CONFIG names, if any]");
  app.add_flag("--check-config", into.check_config, "Check the configuration and end");
  app.add_flag("--print-config", into.print_config, "Print every value with its origin and end");
  app.add_flag("--discard-pool", into.discard_pool,
               "Free the pools that nodes of pool.name_prefix have left in shared memory, and end");
  app.set_version_flag("--version", std::string("peercache-node ") + PEERCACHE_VERSION,
                       "Print the version and end");
  return app;
}

} // namespace

node_options::node_options(CLI::App& app) : flags(with_own_flags(app, *this)) {}

} // namespace peercache::cli
