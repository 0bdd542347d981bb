#pragma once

#include "common/result.hpp"
#include "config/node_config.hpp"
#include "discovery/membership.hpp"
#include "storage/page_pool.hpp"
#include "storage/pool_memory.hpp"

#include <map>
#include <memory>
#include <string>
#include <vector>

// Translates a configuration into the options of a node's parts.
namespace peercache::actors {

storage::pool_memory_options memory_options(const config::node_config& config,
                                            const discovery::member& self);

std::unique_ptr<storage::page_pool> make_pool(const config::node_config& config,
                                              const storage::pool_memory& memory);

/// Resolves the names of seeds to numbers once, at start, because addresses are compared as text
/// later.
result<std::vector<discovery::endpoint>> resolve_seeds(const std::vector<config::host_port>& seeds);

discovery::membership_options machine_options(const config::node_config& config,
                                              std::vector<discovery::endpoint> seeds);

/// Longest time in which a cluster finds that a master is gone and decides without it, if it has
/// the votes.
std::chrono::milliseconds vote_limit(const config::node_config& config);

/// The options that all members of a cluster need alike, by their names; `peercache status`
/// compares them.
std::map<std::string, std::string> common_options(const config::node_config& config);

} // namespace peercache::actors
