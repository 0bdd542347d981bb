#pragma once

#include "cli/doctor/doctor.hpp"
#include "common/result.hpp"
#include "config/node_config.hpp"
#include "net/tls_identity.hpp"

#include <optional>

namespace peercache::cli {

/// Reads the files of `tls.*` as the node does. Nothing: TLS is not configured.
std::optional<result<net::tls_identity>> gather_identity(const config::node_config& config);

/// Judges whose certificate the node would show.
check judge_identity(const config::node_config& config,
                     const std::optional<result<net::tls_identity>>& shown);

/// Looks whether `net.advertise` has an address, without which a node does not start.
check look_at_advertise(const config::node_config& config);

} // namespace peercache::cli
