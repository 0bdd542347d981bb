#pragma once

#include "actors/link_names.hpp"
#include "actors/http_board.hpp"
#include "actors/page_server.hpp"
#include "link/protocol/message_types.hpp"
#include "metrics/registry.hpp"
#include "rdma/verbs/rail_servers.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace peercache::actors {

using metrics_actor = caf::typed_actor<
    // Itself: asks the others for their totals and publishes the text of the next scrapes.
    caf::reacts_to<beat_atom, from_here>>;

struct metrics_options {
  gateway_actor gateway;
  std::function<page_server::snapshot()> page_server_stats;
  std::function<std::vector<rdma::rail_servers::rail_snapshot>()> rail_stats;
  std::shared_ptr<http_board> board;
  std::chrono::milliseconds interval{500};
};

struct metrics_state {
  metrics_state() = default;
  metrics_options options;
  metrics::registry registry;
  static inline const char* name = "metrics";

  /// Takes the node's numbers into the registry, and those of its data planes, and publishes the
  /// texts of the next scrapes.
  void publish(const node_report& node);
};

/// Threads: scheduler. Asks: the gateway, which asks the others; nobody waits for it.
metrics_actor::behavior_type run_metrics(metrics_actor::stateful_pointer<metrics_state> self,
                                         metrics_options options);

} // namespace peercache::actors
