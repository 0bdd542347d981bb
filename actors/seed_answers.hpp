#pragma once

#include "discovery/packet.hpp"
#include "link/protocol/reports.hpp"

#include <map>
#include <string>
#include <vector>

namespace caf {
class error;
}

namespace peercache::actors {

/// What those have answered whom this node asks to take it in: the addresses in discovery.seeds,
/// and the leader that refuses it.
///
/// Threads: one owner. A value.
class seed_answers {
public:
  /// The address gave no node's welcome, for this reason.
  void failed(const discovery::endpoint& at, const caf::error& why);
  /// The node of this name answered at the address; it has not taken this node in.
  void welcomed(const discovery::endpoint& at, const std::string& name);
  /// The connection to the address ended.
  void broke(const discovery::endpoint& at);
  /// The cluster's leader does not take this node in.
  void refused(discovery::refusal why, const std::string& reason);
  /// This node is in: earlier answers no longer mean anything.
  void clear();

  /// A fault for the refusal and one for each seed that has answered or failed.
  std::vector<link::node_fault> faults(const std::vector<discovery::endpoint>& seeds) const;
  /// All of that in one line; empty when nobody has answered yet.
  std::string text(const std::vector<discovery::endpoint>& seeds) const;

private:
  struct answer {
    const char* id = nullptr; ///< A name of common/fault_ids.hpp.
    std::string words;
    const char* fix = "";
    bool by_node = false; ///< A node answered that is not of another cluster or version.
  };

  std::map<discovery::endpoint, answer> by_address_;
  answer refusal_; ///< Without an id: nobody has refused this node.
};

} // namespace peercache::actors
