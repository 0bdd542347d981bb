#pragma once

#include "cli/doctor/doctor.hpp"
#include "config/node_config.hpp"

#include <vector>

namespace peercache::cli {

/// Looks at this machine for a node with this configuration: all checks of `peercache doctor`.
/// Takes as long as the slowest probe, at most their deadline (cli/doctor/probe.hpp).
/// @pre the calling process has one thread
std::vector<check_group> examine_machine(const config::node_config& config);

} // namespace peercache::cli
