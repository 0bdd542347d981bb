#pragma once

#include "cli/doctor/doctor.hpp"
#include "client/admin_client.hpp"
#include "config/node_config.hpp"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace peercache::cli {

/// A process that has a port.
struct port_owner {
  std::int64_t pid = 0; ///< 0: not known; only root sees the sockets of other users' processes.
  std::string program;  ///< Name of the program.
};

/// A port that the node is to listen at. A value, so that tests can make facts up.
struct listen_facts {
  std::string option; ///< "net.control_port", …
  std::string host;
  std::uint16_t port = 0; ///< 0: the kernel chooses one when the node starts.
  std::string why_not;    ///< Why the node could not listen there; empty: it could.
  bool taken = false;     ///< Whether another socket is the reason.
  port_owner owner;
  /// Whether this port belongs to the running node of this name and cluster, as that node says at
  /// its control port.
  bool of_this_node = false;
};

struct ports_facts {
  std::vector<listen_facts> ports;
};

/// Tries to hold each port of the node for a moment, without listening there.
ports_facts gather_ports_facts(const config::node_config& config);

/// Marks the taken ports that a running node of this configuration has, as the node itself says, so
/// that its process need not be known.
void mark_ports_of(const client::node_status& node, ports_facts& facts);

/// The process that has a TCP port: one that listens there before one that is connected.
///
/// @param root the folder in which proc lies; tests have one of their own
port_owner owner_of_port(std::uint16_t port, const std::filesystem::path& root = "/");

/// Judges the facts: a check for each port.
check_group judge_ports(const ports_facts& facts);

} // namespace peercache::cli
