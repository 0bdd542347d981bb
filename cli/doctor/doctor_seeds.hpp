#pragma once

#include "cli/doctor/doctor.hpp"
#include "common/error.hpp"
#include "config/node_config.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace peercache::cli {

/// The facts about an address of discovery.seeds. A value, so that tests can make facts up.
struct seed_facts {
  std::string address;
  bool own = false;           ///< Whether this is the address that the node itself is to advertise.
  bool only = false;          ///< Whether discovery.seeds has no other address.
  bool resolved = true;       ///< Whether the name has an address.
  std::optional<error> fault; ///< Why no node of the cluster answered; nothing: a node did.
  bool listens = false;       ///< With a fault: whether something takes connections there.
  std::string node;           ///< Name of the node that answered.
  std::string version;        ///< Version of PeerCache that the node has.
  std::int64_t ahead_ms = 0;  ///< By how much the node's clock is ahead of this machine's.
  std::string namesake;       ///< Address of a member with this node's name; empty: none.
};

/// The most by which the clocks of two members may differ.
inline constexpr std::int64_t clock_difference_ms_most = 1000;

/// Says hello to a seed as a node does, and asks for its status and view.
seed_facts gather_seed_facts(const config::node_config& config, const config::host_port& seed);

/// Judges the facts. @param version the version of this program
check judge_seed(const seed_facts& facts, const std::string& version);

} // namespace peercache::cli
