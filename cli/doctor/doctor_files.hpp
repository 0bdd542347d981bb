#pragma once

#include "cli/doctor/doctor.hpp"
#include "common/result.hpp"
#include "config/node_config.hpp"

#include <filesystem>
#include <string>

namespace peercache::cli {

/// The facts that the checks of a node's group, Unix socket and log judge by. A value, so that
/// tests can make facts up.
struct files_facts {
  std::string group;        ///< The value of node.group; empty: none.
  bool group_known = true;  ///< Whether this host has the group.
  std::string why_no_group; ///< Why the node could not share with the group; empty: it could.

  /// Path of the node's Unix socket, or why there would be none.
  result<std::string> socket = std::string();
  /// Whether a node of this configuration does not start without its socket.
  bool socket_needed = false;

  std::string log_file;   ///< The value of log.file; empty: stderr.
  std::string why_no_log; ///< Why the file cannot be opened; empty: it can.
};

/// Finds out the facts of this machine, for a node with this configuration and of this user. Makes
/// nothing. @param root the folder that stands for `/`; tests have one of their own
files_facts gather_files_facts(const config::node_config& config,
                               const std::filesystem::path& root = "/");

/// Judges the facts: a check fails where the node would not start.
check_group judge_files_of_node(const files_facts& facts);

} // namespace peercache::cli
