#pragma once

#include "cli/cluster_health.hpp"
#include "cli/command.hpp"
#include "client/admin_client.hpp"
#include "discovery/view.hpp"

#include <optional>
#include <vector>

namespace peercache::cli {

/// A member, and the history that it remembers (`said`); nothing when it does not answer.
struct node_memory {
  discovery::member member;
  std::optional<link::history_report> said;
};

/// Asks all members for their histories, several members at a time, each within the options'
/// timeout.
std::vector<node_memory> ask_memories(const discovery::view& view, const global_options& globals);

/// All events, the oldest first: joins and leaves as the node `asked` saw them, and the incidents
/// of all nodes.
std::vector<link::node_event> events_of(const std::vector<node_memory>& memories,
                                        const std::string& asked);

nlohmann::json to_json(const link::node_event& event);

/// The newest step of a node's history; nothing before the first step has ended.
std::optional<link::history_point> newest_of(const link::history_report& said);

} // namespace peercache::cli
