#pragma once

#include "actors/monitoring/cluster_history.hpp"
#include "link/protocol/history.hpp"

#include <deque>
#include <string>
#include <vector>

namespace peercache::actors {

/// The answer of `/api/history`: docs/http.md describes it. Threads: any.
/// @param node name of the node that the points are of; empty: they are sums of all nodes
/// @param memory holds the points and the names of the nodes
std::string history_json(const std::string& node, const std::deque<link::history_point>& points,
                         const cluster_memory& memory);

/// The answer of `/api/events`. Threads: any.
std::string events_json(const std::vector<link::node_event>& events);

} // namespace peercache::actors
