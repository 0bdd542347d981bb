#pragma once

#include "actors/membership/seed_names.hpp"
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

/// The addresses of discovery.seeds.
struct resolved_seeds {
  /// All seeds, with numeric hosts; a seed whose name has no address has its name.
  std::vector<discovery::endpoint> all;
  seed_names::answers lacking; ///< The seeds without an address, and why.
};

/// How long a start waits for the addresses of seeds, and how long the node then pauses between two
/// look-ups of a name.
inline constexpr std::chrono::milliseconds names_patience{1000}, names_pause{1000};

/// Resolves the names of seeds to numbers, because addresses are compared as text later. Blocks
/// for `names_patience` at most; names without an address by then make a line in the log.
resolved_seeds resolve_seeds(const std::vector<config::host_port>& seeds);

discovery::membership_options machine_options(const config::node_config& config,
                                              const resolved_seeds& seeds);

/// Longest time in which a cluster finds that a master is gone and decides without it, if it has
/// the votes.
std::chrono::milliseconds vote_limit(const config::node_config& config);

/// The options that all members of a cluster need alike, by their names; `peercache status`
/// compares them.
std::map<std::string, std::string> common_options(const config::node_config& config);

} // namespace peercache::actors
