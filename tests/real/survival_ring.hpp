#pragma once

#include "client/admin_client.hpp"
#include "local_ring.hpp"
#include "net_lab.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace peercache::real {

/// A cluster that things happen to: as many nodes as a test wants, on loopback or on hosts of their
/// own, and questions about what they believe. Heartbeats are five times as frequent as by default,
/// where a test does not say otherwise.
class survival_ring : public local_ring {
protected:
  struct plan {
    std::uint32_t count = 3;
    milliseconds heartbeat{100};
    milliseconds expiry{1000};
    bool own_hosts = false; ///< Network namespaces (net_lab); the test is skipped without them.
    bool disk = false;
    std::uint64_t pool_bytes = 16u << 20;
    std::vector<std::string> flags; ///< More of them, of all nodes.
    bool keep_pools = false;        ///< Pages outlive the nodes, and nothing the test.
    std::string program = PEERCACHE_CLI_DIR "/peercache-node";
    std::vector<std::pair<std::string, std::string>> environment;
  };

  void SetUp() override {} // `start_ring` does it.
  void TearDown() override;

  /// Starts the nodes; all are in the view of each other when this returns. See HasFatalFailure and
  /// IsSkipped.
  void start_ring(const plan& wanted);
  /// Starts one more node that knows these seeds; does not wait for it.
  void start_node(std::vector<std::string> seeds);
  /// A node that is not waited for, because it cannot serve before others do; `launch` as by
  /// `launch_of`. It ends with this object.
  void spawn_node(const cli::node_launch& launch);
  /// Starts node `index`, which has ended, where it was; does not wait for it. @param seeds empty:
  /// all
  void spawn_again(std::size_t index, std::vector<std::string> seeds = {});
  cli::node_launch launch_of(std::size_t index) const;
  std::vector<std::string> all_addresses() const;
  /// The start of the names of the nodes' pools. No other test frees them by its start.
  static std::string pool_prefix();

  /// The node's view; nothing when it does not answer within `patience`.
  std::optional<discovery::view> view_of(std::size_t index);
  /// The node's view, however late it answers: versions only grow, so no change is missed.
  std::optional<discovery::view> wait_for_view(std::size_t index);
  /// The node says that its view is not this. One that does not answer in time has said nothing.
  bool has_other_view(std::size_t index, const std::optional<discovery::view>& before);
  bool is_ready(std::size_t index);
  /// Whether all of these nodes are ready and have one view, of exactly these.
  bool one_view(const std::vector<std::size_t>& indices);
  /// The node's view has so many members.
  bool sees(std::size_t index, std::size_t members);

  /// Where calls of a client come from: a scope, in a ring on hosts of its own.
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
  void kill(std::size_t index) {
    admins_[index].reset();
    node(index).process().kill_now();
  }

  /// Page `id` can be put at one node, and be read at the other.
  bool exchange(std::size_t from, std::size_t to, std::uint32_t id);
  /// Whether all pages [first, first + count) can be read at this node now.
  bool all_readable(client::cache_client& client, std::uint32_t first, std::uint32_t count);

private:
  static constexpr milliseconds patience{500};

  plan plan_;
  std::optional<net_lab> lab_;
  std::vector<std::unique_ptr<client::admin_client>> admins_;
  std::vector<cli::child_process> spawned_;
};

} // namespace peercache::real
