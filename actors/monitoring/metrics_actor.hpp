#pragma once

#include "actors/link_names.hpp"
#include "actors/monitoring/event_log.hpp"
#include "actors/monitoring/http_board.hpp"
#include "actors/monitoring/node_history.hpp"
#include "actors/serving/lookup_datagrams.hpp"
#include "actors/serving/page_server.hpp"
#include "common/unix_time.hpp"
#include "link/protocol/message_types.hpp"
#include "link/protocol/topology.hpp"
#include "metrics/registry.hpp"
#include "rdma/verbs/rail_servers.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace peercache::actors {

using metrics_actor = caf::typed_actor<
    // From the links: a new view, or a change of a connection.
    caf::reacts_to<topology_atom, topology_ptr>,
    // From the HTTP thread: somebody reads this node's numbers, and they are not new.
    caf::reacts_to<turn_atom, from_here>,
    // From itself: time to ask the gateway for the node's status.
    caf::reacts_to<beat_atom, from_here>>;

struct metrics_options {
  gateway_actor gateway;
  std::function<page_server::snapshot()> page_server_stats;
  std::function<std::vector<rdma::rail_servers::rail_snapshot>()> rail_stats;
  std::function<served_datagrams::counts()> datagram_stats;
  std::shared_ptr<http_board> board;
  /// Time between two reports, while somebody reads the page at `/`.
  std::chrono::milliseconds interval{500};
  /// Time between two reports otherwise, by the time of day: a step of the history ends with one. A
  /// scrape of `/metrics` or `/status.json` has a report made.
  std::chrono::milliseconds rest_interval{5000};
  /// How long `interval` counts after somebody has read the page.
  std::chrono::milliseconds watching_lasts{60'000};
  std::string self; ///< The node's name.
  /// The time of day, in ms since 1970.
  std::function<std::uint64_t()> today = [] { return unix_ms(); };
};

struct metrics_state {
  metrics_state() = default;
  metrics_options options;
  node_history history;
  event_log events;
  bool asks = false; ///< Whether the gateway has been asked and has not answered.
  static inline const char* name = "metrics";

  /// Puts the node's numbers on the board, and those of its data planes.
  void publish(const node_report& node);
  /// Notes the node's counters and faults for the history of the last hour. Units: the time of day
  /// in ms since 1970.
  void remember(const node_report& node, node_history::time_point now, std::uint64_t unix_ms);
  void remember(const discovery::view& view, std::uint64_t unix_ms);
  /// Whether somebody has read the page at `/` lately.
  bool is_watched(std::chrono::steady_clock::time_point now) const;
};

/// Publishes the node's numbers, history and events for the HTTP thread, at beats and when a scrape
/// asks for them. Threads: scheduler. Asks: the gateway, which asks the other actors. No actor
/// waits for this one.
metrics_actor::behavior_type run_metrics(metrics_actor::stateful_pointer<metrics_state> self,
                                         metrics_options options);

} // namespace peercache::actors
