#pragma once

#include "cli/command.hpp"
#include "client/admin_client.hpp"
#include "common/result.hpp"
#include "discovery/view.hpp"

#include <optional>
#include <string>
#include <vector>

namespace peercache::cli {

/// The answer of one node that was asked for its status: the status, or why there is none.
struct node_answer {
  discovery::member member;
  std::optional<client::node_status> status;
  error fault; ///< Why the node gave no status.
};

/// Asks all members for their status; answers come in the natural order of the members' names.
/// Several members are asked at a time, each within the options' timeout, so a frozen one does not
/// hold up the others.
std::vector<node_answer> ask_all(const discovery::view& view, const global_options& globals);

bool is_master(const discovery::view& view, const std::string& name);

/// The faults of a cluster, a sentence each with what to do; empty when the cluster is well. A
/// draining node is no fault. @param asked The status of the node that the view is from.
std::vector<std::string> faults_of(const client::node_status& asked, const discovery::view& view,
                                   const std::vector<node_answer>& answers);

/// A node's state for people: "ready", "draining", "unready: …" or why there is no answer.
std::string state_of(const node_answer& answer);
/// Since when a member is gone, for people: "2026-11-26 17:03:12 UTC".
std::string since_of(const discovery::departed& who);
nlohmann::json to_json(const discovery::departed& who);
/// A node's role in the view: "leader", "master" or "member".
std::string role_of(const node_answer& answer, const discovery::view& view);

} // namespace peercache::cli
