#pragma once

#include "chaos_plan.hpp"
#include "cli/node_process.hpp"
#include "tests/real/net_lab.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace peercache::chaos {

/// The hosts of a run, each with a network of its own, and the nodes on them. A host's node keeps
/// its name, address, disk and clock when it is started again.
///
/// Threads: only the main thread, because a node dies with the thread that started its process.
/// Errors: results.
class chaos_cluster {
public:
  static constexpr std::uint16_t control_port = 31998;

  static result<chaos_cluster> make(const chaos_plan& plan, const cli::run_folder& folder);
  /// Ends the running nodes, and removes the pools that killed nodes have left in shared memory.
  ~chaos_cluster();
  chaos_cluster(chaos_cluster&&) noexcept = default;
  chaos_cluster& operator=(chaos_cluster&&) = delete;

  std::uint32_t hosts() const { return static_cast<std::uint32_t>(nodes_.size()); }
  const std::string& cluster_name() const { return nodes_.front().launch.cluster; }
  /// Certificate, key and CA of the clients; empty without TLS.
  const tls_paths& client_tls() const { return client_tls_; }
  const std::string& node_name(std::uint32_t host) const { return nodes_[host].launch.name; }
  std::string pool_prefix() const;
  real::net_lab& net() { return net_; }
  const real::net_lab& net() const { return net_; }

  bool running(std::uint32_t host) const { return nodes_[host].process.has_value(); }
  bool frozen(std::uint32_t host) const { return nodes_[host].frozen; }
  std::vector<std::uint32_t> all_running() const;

  /// Starts the host's node. Does not wait until the node serves, which a fault may prevent.
  result<void> start(std::uint32_t host);
  void kill(std::uint32_t host);
  void freeze(std::uint32_t host);
  void thaw(std::uint32_t host);
  /// Sends SIGTERM: the node withdraws its pages, tells the other nodes, and ends.
  void drain(std::uint32_t host);
  /// Whether the host's node, which was told to drain, has ended.
  bool drained(std::uint32_t host);
  /// @pre the host's node is not running
  void wipe_disk(std::uint32_t host);
  /// Moves the wall clock that the host's node reads. @param seconds offset from the true time,
  /// forward or back
  result<void> jump_clock(std::uint32_t host, int seconds);

  /// Returns the names of nodes that ended although this object did not end them; each is returned
  /// once.
  std::vector<std::string> died();
  void stop();

private:
  struct node {
    cli::node_launch launch;
    std::optional<cli::child_process> process;
    bool frozen = false;
    bool draining = false;
  };
  /// Kills the node's process, if it still runs, and removes its faketime files from /dev/shm.
  void bury(node& dead);
  explicit chaos_cluster(real::net_lab net) : net_(std::move(net)) {}
  /// Makes a CA, and gives each node and the clients a certificate of it.
  result<void> make_certificates(const std::filesystem::path& folder);
  std::filesystem::path disk_of(std::uint32_t host) const {
    return nodes_[host].launch.folder / "disk";
  }
  std::filesystem::path clock_of(std::uint32_t host) const {
    return nodes_[host].launch.folder / "clock";
  }

  real::net_lab net_;
  std::vector<node> nodes_;
  tls_paths client_tls_;
  int nodes_priority_ = 0;
};

} // namespace peercache::chaos
