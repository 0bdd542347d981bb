#pragma once

#include "common/result.hpp"
#include "config/node_config.hpp"
#include "discovery/membership.hpp"
#include "storage/page_pool.hpp"
#include "storage/pool_memory.hpp"

#include <memory>
#include <vector>

// What a configuration means to the parts of a node.
namespace peercache::actors {

storage::pool_memory_options memory_options(const config::node_config& config,
                                            const discovery::member& self);

std::unique_ptr<storage::page_pool> make_pool(const config::node_config& config,
                                              const storage::pool_memory& memory);

/// Addresses are compared as text from here on, so names become numbers once, at start.
result<std::vector<discovery::endpoint>> resolve_seeds(const std::vector<config::host_port>& seeds);

discovery::membership_options machine_options(const config::node_config& config,
                                              std::vector<discovery::endpoint> seeds);

/// In which a cluster finds that a master is gone and decides without it, should it have the votes.
std::chrono::milliseconds vote_limit(const config::node_config& config);

} // namespace peercache::actors
