#pragma once

#include "common/result.hpp"
#include "config/node_config.hpp"
#include "discovery/view.hpp"
#include "net/socket.hpp"
#include "rdma/verbs/rail_choice.hpp"
#include "rdma/verbs/verbs_protocol.hpp"
#include "rdma/verbs/verbs_server_stats.hpp"
#include "storage/pool_memory.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace peercache::rdma {
class verbs_rail_server;
}

namespace peercache::actors {

/// Lets other hosts READ this node's pool: one rail server for each device, each with a data-plane
/// actor of its own, and threads that register the pool at start. Threads: `run` in one thread per
/// rail, `register_pool` in any number, the rest in any. Ownership: owns devices and queue pairs;
/// the pool's memory outlives it.
class rail_service {
public:
  /// Opens the rails of `choice`; without rails the service does nothing. A rail that fails is left
  /// out, unless verbs are demanded.
  static result<std::unique_ptr<rail_service>> open(const rdma::rail_choice& choice,
                                                    const config::node_config& config,
                                                    const discovery::member& self,
                                                    const storage::pool_memory& memory);
  ~rail_service();

  std::size_t rails() const noexcept { return rails_.size(); }
  /// Returns the names of the chosen rails and the reason for the choice, in words.
  const std::string& choice() const noexcept { return choice_; }

  /// Takes a connection that has said a verbs hello, for the rail that the hello names.
  void accept(net::unique_fd socket, const rdma::verbs_hello& greeting);

  /// The body of a rail's data-plane actor: returns after `stop`.
  void run(std::size_t rail);
  /// Registers chunks of the pool with all rails until none is left, or until `stop`.
  void register_pool();
  void stop() noexcept;

  struct rail_snapshot {
    std::string device;
    rdma::verbs_rail_stats stats;
  };
  /// Returns a snapshot of each rail, at most 100 ms old.
  std::vector<rail_snapshot> latest() const;

private:
  struct rail {
    std::string name;
    std::unique_ptr<rdma::verbs_rail_server> server;
  };

  rail_service() = default;
  result<void> add_rail(const rdma::rail_choice::rail& which, const rdma::rail_settings& settings,
                        const config::node_config& config, const discovery::member& self,
                        std::uint8_t count, const storage::pool_memory& memory);

  std::string choice_;
  std::vector<rail> rails_;
  std::atomic<bool> stop_{false};
};

} // namespace peercache::actors
