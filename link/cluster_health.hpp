#pragma once

#include "common/error.hpp"
#include "discovery/view.hpp"
#include "link/node_status.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

// What is wrong with a cluster, from the answers of its nodes: for the command line, and for the
// page that each node serves. Threads: any; plain functions of values.
namespace peercache::link {

/// The answer of one node that was asked for its status: the status, or why there is none.
struct node_answer {
  discovery::member member;
  std::optional<node_status> status;
  error fault; ///< Why the node gave no status.
  /// The asker's time of day before the node was asked and after it answered, in ms since 1970.
  std::uint64_t asked_ms = 0, answered_ms = 0;
  /// The node was asked before the asker took its present view: what it says of its view and its
  /// connections may be out of date, and is not a fault.
  bool of_earlier_view = false;
  /// The node has just joined and could not be asked yet, which is not a fault.
  bool untried = false;
};

bool is_master(const discovery::view& view, const std::string& name);

/// Something that keeps a cluster from being well.
struct cluster_fault {
  std::string id;   ///< A name of common/fault_ids.hpp; docs/errors.md has them all.
  std::string node; ///< The node that the fault is about; empty: the cluster.
  std::string text; ///< A sentence with what to do.
};

/// The faults of a cluster; none when the cluster is well. A draining node is not a fault.
/// @param asked The status of the node that the view is from.
std::vector<cluster_fault> faults_of(const node_status& asked, const discovery::view& view,
                                     const std::vector<node_answer>& answers);

/// A node's state for people: "ready", "draining", "unready: …" or why there is no answer.
std::string state_of(const node_answer& answer);
/// Since when a member is gone, for people: "2026-11-26 17:03:12 UTC".
std::string since_of(const discovery::departed& who);
/// A time of day, for people, in UTC.
std::string time_text(std::uint64_t unix_ms);
/// A node's fault as a sentence for people, with what to do and since when.
std::string sentence_of(const node_fault& fault);
/// All faults that a node says of itself: of its membership, its disk tier, its connections.
std::vector<node_fault> own_faults_of(const node_report& report);
/// The ids of all faults that a node says of itself.
std::vector<std::string> fault_ids_of(const node_status& status);
/// A node's role in the view: "leader", "master" or "member"; "leader" only if the node says so.
std::string role_of(const node_answer& answer, const discovery::view& view);

} // namespace peercache::link
