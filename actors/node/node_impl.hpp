#pragma once

#include "actors/clearing/cleared_spaces.hpp"
#include "actors/directory/shared_shard.hpp"
#include "actors/disk/disk_service.hpp"
#include "actors/link_names.hpp"
#include "actors/monitoring/metrics_actor.hpp"
#include "actors/monitoring/overview_actor.hpp"
#include "actors/node/node.hpp"
#include "actors/node/node_options.hpp"
#include "actors/overlap/overlap_actor.hpp"
#include "actors/serving/lookup_relay_actor.hpp"
#include "actors/serving/lookup_server.hpp"
#include "actors/serving/page_server.hpp"
#include "actors/supervision.hpp"
#include "common/assert.hpp"
#include "common/forks.hpp"
#include "common/loopback.hpp"
#include "directory/shard_object.hpp"
#include "link/links_actor.hpp"
#include "link/protocol/message_types.hpp"
#include "link/system_config.hpp"
#include "metrics/http_server.hpp"
#include "net/host_socket.hpp"
#include "net/socket.hpp"
#include "net/tls_context.hpp"
#include "rdma/verbs/rail_servers.hpp"
#include "storage/pool_memory.hpp"
#include "storage/pool_remains.hpp"

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

// The parts of a node, shared by the sources of the composition root: node.cpp opens and ends the
// node, node_tls.cpp decides who is let in, node_actors.cpp spawns its actors.
namespace peercache::actors {

/// Whether the node takes work, and if not, why. A failure outweighs what the gateway said last.
inline metrics::readiness readiness_of(const http_board& board, const supervision& watched) {
  if (auto failure = watched.failure(); !failure.empty())
    return {false, std::move(failure)};
  return *board.ready.load();
}

/// Everything that a node consists of.
///
/// Threads: as `node`, which passes its calls on. Ownership: owns all parts. `start` makes them in
/// order; `stop` ends threads and actors, and only then are the members destroyed. Errors: `start`
/// fails at the first part that cannot be made, and the destructor ends those that were made.
class node::impl {
public:
  impl(const config::node_config& config, node_decorators decorators)
      : config_(config), decorators_(std::move(decorators)) {}
  ~impl() { stop(); }

  result<void> start();
  void drain();
  void stop();
  std::shared_ptr<const std::atomic<const char*>> stopping_at() const noexcept {
    return stopping_at_;
  }
  const discovery::member& self() const noexcept { return self_; }
  bool ready() const { return readiness_of(*board_, supervision_).ready; }
  std::string failure() const { return supervision_.failure(); }
  void when_failed(std::function<void()> act) { supervision_.when_failed(std::move(act)); }
  bool read_certificates_again() { return tls_ && tls_->look_again(); }
  const home_process& home() const noexcept { return home_; }
  /// Leaves the pool's memory to the next process, if the configuration allows it. @pre the node is
  /// stopped
  void keep_pool() {
    PEERCACHE_ASSERT(stopped_); // Nothing of this process still writes to the memory.
    if (memory_ && config_.pool.keep && config_.pool.huge_pages == config::huge_pages::off)
      memory_->outlive(true);
  }

private:
  result<void> open_tls();
  /// Whether other hosts reach a port for pages that is not under TLS.
  bool is_insecure() const { return !tls_ && !is_loopback(config_.net.bind); }
  bool pages_in_tls() const { return config_.tls_data == config::tls_data_mode::full; }
  result<void> open_pool();
  void recall_last_life();
  result<void> hold_ports();
  result<std::unique_ptr<rdma::rail_servers>> open_rails(const rdma::rail_choice& choice);
  result<void> open_ports();
  result<void> open_http();
  result<caf::io::doorman_ptr> listen(std::uint16_t port, const char* option,
                                      net::tls_peers members);
  result<void> open_host_socket();
  void spawn_actors();
  void spawn_rails();
  void let_rails_read_shard();
  int share_shard();
  void spawn_directory();
  void spawn_pool();
  void spawn_adoption();
  void spawn_membership(const std::shared_ptr<peer>& own);
  void spawn_gateway(peer& own);
  void spawn_clearing(const std::shared_ptr<peer>& own);
  void spawn_lookups();
  void spawn_metrics();
  void spawn_overview();
  void spawn_overlap();
  void supervise();
  void stop_threads();
  /// Calls `visit(actor, name)` with each actor that has been spawned, and its name in words.
  template <class Visit>
  void each_actor(Visit&& visit);
  void end_actors();

  const config::node_config config_;
  const node_decorators decorators_;
  const home_process home_;
  discovery::member self_;
  resolved_seeds seeds_;
  /// The group that shares socket and pool; nothing: only the node's user has them.
  std::optional<gid_t> group_;
  /// Sockets bound from the start of the node until it listens at their ports.
  std::vector<net::unique_fd> held_ports_;
  std::optional<storage::pool_memory> memory_;
  /// Pages that the previous process left in the pool's memory, until the pool claims them.
  std::optional<storage::pool_remains> remains_;
  cleared_spaces cleared_;  ///< The cleared spaces, held until the clearing actor takes them.
  std::string left_behind_; ///< Names of the nodes that the previous process left behind.
  std::unique_ptr<disk_service> disk_;
  /// The servers of the rails; declared before `pages_`, because the page server hands connections
  /// over to them.
  std::unique_ptr<rdma::rail_servers> rails_;
  std::unique_ptr<page_server> pages_;
  supervision supervision_;
  std::shared_ptr<http_board> board_ = std::make_shared<http_board>();
  std::unique_ptr<metrics::http_server> http_;
  std::shared_ptr<net::tls_context> tls_; ///< Null: the ports are plain.
  std::unique_ptr<system_config> caf_config_;
  std::unique_ptr<caf::actor_system> system_;
  caf::io::doorman_ptr doorman_, host_doorman_;
  std::optional<net::host_socket> host_socket_;
  std::unique_ptr<lookup_server> lookups_; ///< Ends before the system, whose thread shakes hands.
  lookup_relay_actor lookup_relay_;
  connector_actor connector_;
  directory_actor directory_;
  directory_actor door_; ///< What other nodes have as this node's directory.
  std::optional<directory::shard_object> shard_object_; ///< Where clients of this host map it.
  std::shared_ptr<shared_shard> shard_;                 ///< What `directory_` keeps.
  links_actor links_;
  membership_actor membership_;
  pool_actor pool_;
  disk_actor disk_actor_;
  promoter_actor promoter_;
  gateway_actor gateway_;
  clearing_actor clearing_;
  metrics_actor metrics_;
  overview_actor overview_;
  overlap_actor overlap_;
  caf::actor page_thread_, lookup_thread_, http_thread_, disk_thread_, adoption_thread_;
  std::atomic<bool> stop_adoption_{false};
  std::vector<caf::actor> rail_threads_;
  bool stopped_ = false;
  const std::shared_ptr<std::atomic<bool>> caught_up_ = std::make_shared<std::atomic<bool>>(false);
  const std::shared_ptr<std::atomic<const char*>> stopping_at_ =
      std::make_shared<std::atomic<const char*>>("at its beginning");
};

template <class Visit>
void node::impl::each_actor(Visit&& visit) {
  const auto visit_one = [&visit](auto& actor, const char* name) {
    if (actor)
      visit(actor, name);
  };
  visit_one(lookup_relay_, "the look-up relay");
  visit_one(metrics_, "metrics");
  visit_one(overview_, "the overview");
  visit_one(overlap_, "the overlap query");
  visit_one(gateway_, "the gateway");
  visit_one(clearing_, "clearing");
  visit_one(membership_, "membership");
  visit_one(links_, "links");
  visit_one(door_, "the directory's door");
  visit_one(directory_, "the directory");
  visit_one(connector_, "the connector");
  visit_one(promoter_, "the promoter");
  visit_one(disk_actor_, "the disk writer");
  visit_one(pool_, "the pool");
}

} // namespace peercache::actors
