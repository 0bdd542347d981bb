#pragma once

#include "chaos_plan.hpp"
#include "cli/node_process.hpp"
#include "tests/real/net_lab.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace peercache::chaos {

/// The hosts of a run, each with a network of its own, and what becomes of the nodes on them. A
/// host's node has the same name, address, disk and clock in all of its lives.
///
/// Threads: the main one (it is the nodes' parent: they die with it). Errors: results.
class chaos_cluster {
public:
  static constexpr std::uint16_t control_port = 31998;

  static result<chaos_cluster> make(const chaos_plan& plan, const cli::run_folder& folder);
  /// Ends what runs, and removes what the killed have left in shared memory.
  ~chaos_cluster();
  chaos_cluster(chaos_cluster&&) noexcept = default;
  chaos_cluster& operator=(chaos_cluster&&) = delete;

  std::uint32_t hosts() const { return static_cast<std::uint32_t>(nodes_.size()); }
  const std::string& cluster_name() const { return nodes_.front().launch.cluster; }
  const std::string& node_name(std::uint32_t host) const { return nodes_[host].launch.name; }
  std::string pool_prefix() const;
  real::net_lab& net() { return net_; }
  const real::net_lab& net() const { return net_; }

  bool running(std::uint32_t host) const { return nodes_[host].process.has_value(); }
  bool frozen(std::uint32_t host) const { return nodes_[host].frozen; }
  std::vector<std::uint32_t> all_running() const;

  /// Does not wait until it serves: during a fault it may not come to that.
  result<void> start(std::uint32_t host);
  void kill(std::uint32_t host);
  void freeze(std::uint32_t host);
  void thaw(std::uint32_t host);
  /// SIGTERM: it withdraws what it has, tells the others, and ends.
  void drain(std::uint32_t host);
  /// True once a node that drains has ended.
  bool drained(std::uint32_t host);
  /// @pre not running
  void wipe_disk(std::uint32_t host);
  /// Moves the wall clock that the node reads, forward or back.
  result<void> jump_clock(std::uint32_t host, int seconds);

  /// Nodes that ended although nobody asked them to; each is told once.
  std::vector<std::string> died();
  void stop();

private:
  struct node {
    cli::node_launch launch;
    std::optional<cli::child_process> process;
    bool frozen = false;
    bool draining = false;
  };
  /// Kills it, if it still runs.
  void bury(node& dead);
  explicit chaos_cluster(real::net_lab net) : net_(std::move(net)) {}
  std::filesystem::path disk_of(std::uint32_t host) const {
    return nodes_[host].launch.folder / "disk";
  }
  std::filesystem::path clock_of(std::uint32_t host) const {
    return nodes_[host].launch.folder / "clock";
  }

  real::net_lab net_;
  std::vector<node> nodes_;
  int nodes_priority_ = 0;
};

} // namespace peercache::chaos
