#pragma once

#include "common/result.hpp"

#include <optional>
#include <string>
#include <sys/types.h>

namespace peercache {

/// The environment variable by which clients learn the group that shares the pool of their host's
/// node (`node.group`).
inline constexpr const char* node_group_variable = "PEERCACHE_NODE_GROUP";

/// The value of `node_group_variable`; empty when it is not set. No other thread may change the
/// environment during the call.
std::string group_in_environment();

/// Returns the number of the group that `name` gives: the name of a group of this host, or a
/// number, which is not looked up; nothing for an empty name. Errors: this host has no group of
/// that name. Blocks while the host resolves a name.
result<std::optional<gid_t>> group_named(const std::string& name);

/// Whether this process may give its files to the group, as root and the group's members may.
/// Errors: it may not; the message tells an operator why.
result<void> may_share_with(gid_t group);

} // namespace peercache
