#pragma once

#include "actors/gateway/gateway_actor.hpp"

namespace peercache::actors {

/// The node's report, whose parts its actors are asked for. Parts that do not come within a second
/// are missing, and the report names their actors.
caf::result<node_report> report_of_node(gateway_pointer self);

} // namespace peercache::actors
