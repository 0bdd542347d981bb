#pragma once

#include "cli/command.hpp"
#include "client/admin_client.hpp"
#include "discovery/view.hpp"
#include "link/cluster_health.hpp"

#include <vector>

namespace peercache::cli {

using link::cluster_fault;
using link::node_answer;
using link::since_of;

/// Asks all members for their status; answers come in the natural order of the members' names.
/// Several members are asked at a time, each within the options' timeout, so a frozen one does not
/// hold up the others.
std::vector<node_answer> ask_all(const discovery::view& view, const global_options& globals);

/// The answer of `peercache status` as JSON. @param status the status of the node at `--node`
nlohmann::json status_json(const client::node_status& status, const discovery::view& view,
                           const std::vector<node_answer>& answers,
                           const std::vector<cluster_fault>& faults);

/// The error of a node that a part of it (a name of `link::node_parts`) does not answer.
error silent_part(const client::node_status& status, const char* part);
/// Tells that error. Returns `degraded`, because the node itself answers.
exit_code fail_for_silent(const global_options& globals, const client::node_status& status,
                          const char* part);

nlohmann::json to_json(const cluster_fault& fault);
nlohmann::json to_json(const discovery::departed& who);

} // namespace peercache::cli
