#pragma once

#include "cli/command.hpp"
#include "client/admin_client.hpp"
#include "common/result.hpp"
#include "discovery/view.hpp"

#include <optional>
#include <string>
#include <vector>

namespace peercache::cli {

/// What one node said when it was asked.
struct node_answer {
  discovery::member member;
  std::optional<client::node_status> status;
  error fault; ///< Why there is no status.
};

/// All members' answers, in the natural order of their names. Several are asked at a time, each
/// within the options' timeout, so that one that is frozen does not hold up the others.
std::vector<node_answer> ask_all(const discovery::view& view, const global_options& globals);

bool is_master(const discovery::view& view, const std::string& name);

/// What is wrong with the cluster, a sentence each, and what to do; empty: nothing. Nodes that
/// drain are not. @param asked The node that the view is from.
std::vector<std::string> faults_of(const client::node_status& asked, const discovery::view& view,
                                   const std::vector<node_answer>& answers);

/// "ready", "draining", "unready: …" or why there is no answer.
std::string state_of(const node_answer& answer);
/// "leader", "master" or "member".
std::string role_of(const node_answer& answer, const discovery::view& view);

} // namespace peercache::cli
