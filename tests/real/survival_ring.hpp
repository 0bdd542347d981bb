#pragma once

#include "client/admin_client.hpp"
#include "local_ring.hpp"
#include "net/socket.hpp"
#include "net_lab.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace peercache::real {

/// A cluster in which tests cause faults: as many nodes as a test wants, on loopback or in network
/// namespaces, and functions that ask nodes for their views. Heartbeats are five times as frequent
/// as by default, unless a test says otherwise.
class survival_ring : public local_ring {
protected:
  struct plan {
    std::uint32_t count = 3;
    milliseconds heartbeat{100};
    milliseconds expiry{1000};
    /// Whether each node has a network namespace (net_lab); the test is skipped where the machine
    /// allows none.
    bool own_hosts = false;
    std::uint32_t spare_hosts = 0; ///< Further hosts of the network, which have no node.
    bool disk = false;
    std::uint64_t pool_bytes = 16u << 20;
    std::vector<std::string> flags; ///< Further flags of all nodes.
    bool keep_pools = false;        ///< Whether pools outlive their nodes' processes, but not the
                                    ///< test.
    std::string program = PEERCACHE_CLI_DIR "/peercache-node";
    std::vector<std::pair<std::string, std::string>> environment;
  };

  void SetUp() override {} // Starts no node: tests call `start_ring`.
  void TearDown() override;

  /// Starts the nodes, and waits until all have one view with all of them. The test may have failed
  /// or been skipped by then: see HasFatalFailure and IsSkipped.
  void start_ring(const plan& wanted);
  /// Starts one more node that knows these seeds; does not wait until the other nodes have it in
  /// their views.
  void start_node(std::vector<std::string> seeds);
  /// Starts a node that ends with this object. Does not wait for the node, which may need nodes
  /// that start later. @param launch made by `launch_of`
  void spawn_node(const cli::node_launch& launch);
  /// Starts node `index`, which has ended, again where it was; does not wait for it. @param seeds
  /// empty: the addresses of all nodes
  void spawn_again(std::size_t index, std::vector<std::string> seeds = {});
  cli::node_launch launch_of(std::size_t index) const;
  std::vector<std::string> all_addresses() const;
  /// Prefix of the names of these nodes' pools, different for each test process, because a node
  /// that starts frees the pools of dead nodes with the same prefix.
  static std::string pool_prefix();

  /// Returns the node's view; nothing when the node does not answer within `patience`.
  std::optional<discovery::view> view_of(std::size_t index);
  /// Returns the number of records in the node's directory shard; nothing when the node does not
  /// answer within `patience`.
  std::optional<std::uint64_t> records_of(std::size_t index) {
    return number_of(index, metrics::metric::directory_records);
  }
  /// Returns the node's view, however late the node answers. A late answer hides no change, because
  /// versions of views only grow.
  std::optional<discovery::view> wait_for_view(std::size_t index);
  /// Whether the node says that it has another view than `before`. False when it does not answer in
  /// time.
  bool has_other_view(std::size_t index, const std::optional<discovery::view>& before);
  bool is_ready(std::size_t index);
  /// Whether all of these nodes are ready, have the same view, with exactly these nodes, and are
  /// connected with each other: a page that is put now is told to all of its owners soon.
  bool one_view(const std::vector<std::size_t>& indices);
  /// Whether the node's view has `members` members.
  bool sees(std::size_t index, std::size_t members);

  /// While this object lives, the thread that made it is in the network namespace of node `index`,
  /// if nodes have namespaces.
  class at_host {
  public:
    at_host(const survival_ring& ring, std::size_t index);
    ~at_host();

  private:
    const net_lab* lab_;
  };
  at_host at(std::size_t index) const { return {*this, index}; }
  net_lab& lab() { return *lab_; }
  void thaw(std::size_t index) { node(index).process().signal(SIGCONT); }
  /// Kills the node, and holds its ports: the kernel gives them to no other node meanwhile.
  void kill(std::size_t index);

  /// Whether page `id` can be put at node `from` and then be read at node `to`.
  bool exchange(std::size_t from, std::size_t to, std::uint32_t id);
  /// Whether all pages [first, first + count) can be read by this client now.
  bool all_readable(client::cache_client& client, std::uint32_t first, std::uint32_t count);

private:
  static constexpr milliseconds patience{500};

  /// Returns one of the node's metrics; nothing when the node does not answer within `patience`.
  std::optional<std::uint64_t> number_of(std::size_t index, metrics::metric which);
  /// Returns the client of the node, and connects it if there is none; null when the node does not
  /// answer within `patience`.
  client::admin_client* admin_of(std::size_t index);

  plan plan_;
  std::optional<net_lab> lab_;
  std::vector<std::unique_ptr<client::admin_client>> admins_;
  std::vector<cli::child_process> spawned_;
  std::vector<net::unique_fd> held_ports_; ///< The ports of nodes that were killed.
};

} // namespace peercache::real
