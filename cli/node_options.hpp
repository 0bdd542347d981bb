#pragma once

#include "config/cli_options.hpp"

#include <string>

namespace CLI {
class App;
} // namespace CLI

namespace peercache::cli {

/// The flags of the program peercache-node: those of the option table, and a few of its own.
/// Threads: none. Not movable: the app keeps references into this object, which lives as long.
struct node_options {
  /// Names the app and adds all flags to it.
  explicit node_options(CLI::App& app);
  node_options(const node_options&) = delete;
  node_options& operator=(const node_options&) = delete;

  std::string config_path; ///< The file; empty: the one that PEERCACHE_CONFIG names, if any.
  bool check_config = false;
  bool print_config = false;
  bool discard_pool = false;
  config::cli_options flags;
};

} // namespace peercache::cli
