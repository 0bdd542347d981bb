#pragma once

#include "cli/node_process.hpp"
#include "client/admin_client.hpp"
#include "stress_plan.hpp"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

namespace peercache::stress {

/// The nodes of a stress run; can kill a node and start it again. Threads: only the main thread,
/// because a node dies with the thread that started its process. Errors: results.
class stress_cluster {
public:
  static result<stress_cluster> start(const stress_plan& plan, cli::run_folder& folder);

  std::uint16_t port(std::uint32_t node) const { return nodes_[node].ports().control_port; }
  const std::string& cluster_name() const { return nodes_.front().launch().cluster; }

  /// Kills the node with kill -9, and starts it again with the same name on the same ports.
  result<void> kill_and_restart(std::uint32_t node);
  /// Returns how many pages lie in the node's pool now; 0 when the node does not answer.
  std::uint64_t pages(std::uint32_t node) const;

  /// Asks all running nodes for their totals. `kill_and_restart` asks a process before it kills it.
  void count();
  void stop() { cli::stop_nodes(nodes_, std::chrono::seconds(10)); }

  std::uint64_t kills() const { return kills_; }
  std::uint64_t puts() const;
  std::uint64_t evictions() const;
  /// Returns an upper bound for the number of puts that evicted a page: the sum, over all
  /// processes, of the lesser of puts and evictions.
  std::uint64_t evicting_puts() const;
  /// Returns the pages and bytes in each pool when it was last counted.
  nlohmann::json pools() const;

private:
  struct totals {
    std::uint64_t puts = 0;
    std::uint64_t evictions = 0;
    std::uint64_t pages = 0;
    std::uint64_t bytes_used = 0;
  };
  explicit stress_cluster(std::vector<cli::node_process> nodes)
      : nodes_(std::move(nodes)), now_(nodes_.size()) {}
  void count(std::uint32_t node);
  result<client::node_status> status(std::uint32_t node) const;

  std::vector<cli::node_process> nodes_;
  std::vector<totals>
      now_; ///< For each node: what its running process counted at the last `count`.
  std::vector<totals> history_; ///< Totals of the processes that were killed.
  std::uint64_t kills_ = 0;
};

} // namespace peercache::stress
