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

/// The answers of the nodes that this node asks to take it in: of the nodes at the addresses in
/// discovery.seeds, and of the leader that refuses it.
///
/// Threads: one owner. A value.
class seed_answers {
public:
  /// Notes that no node has welcomed this one at the address, and why.
  void failed(const discovery::endpoint& at, const caf::error& why);
  /// Notes that the name of the seed at `at` has no address, and why; lasts until `has_address`.
  void no_address(const discovery::endpoint& at, const std::string& why);
  /// Notes that an address of the seed was found.
  void has_address(const discovery::endpoint& at) { without_address_.erase(at); }
  bool lacks_address(const discovery::endpoint& at) const { return without_address_.contains(at); }
  /// Whether any seed has no address.
  bool lacks_addresses() const noexcept { return !without_address_.empty(); }
  /// Notes that the node of this name answers at the address and has not taken this node in.
  void welcomed(const discovery::endpoint& at, const std::string& name);
  /// Notes that the connection to the address has ended.
  void broke(const discovery::endpoint& at);
  /// Notes that the cluster's leader refuses to take this node in.
  void refused(discovery::refusal why, const std::string& reason);
  /// Forgets all answers but that a seed has no address. Call when this node has been taken in.
  void clear();

  /// Returns a fault for each seed that has no address.
  std::vector<link::node_fault>
  faults_of_names(const std::vector<discovery::endpoint>& seeds) const;
  /// Returns why this node is not in the cluster. First the leader's refusal, if a node of the
  /// cluster answers at one of the seeds or there are no seeds. Then a fault for each seed that
  /// failed or has no address; and, unless the leader has refused this node, one for each seed that
  /// answers but has not taken this node in. A seed that has not answered yet gives none.
  std::vector<link::node_fault> faults(const std::vector<discovery::endpoint>& seeds) const;
  /// Returns the words of all `faults` in one line; empty when there are none.
  std::string text(const std::vector<discovery::endpoint>& seeds) const;

private:
  link::node_fault fault_of_name(const discovery::endpoint& seed) const;

  struct answer {
    const char* id = nullptr; ///< A name of common/fault_ids.hpp.
    std::string words;
    const char* fix = "";
    bool by_node = false; ///< The answer is from a node of the same cluster and version.
  };

  std::map<discovery::endpoint, answer> by_address_;
  std::map<discovery::endpoint, std::string> without_address_; ///< By seed, why.
  answer refusal_; ///< Without an id: nobody has refused this node.
};

} // namespace peercache::actors
