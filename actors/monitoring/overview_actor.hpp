#pragma once

#include "actors/link_names.hpp"
#include "actors/monitoring/cluster_history.hpp"
#include "actors/monitoring/cluster_overview.hpp"
#include "actors/monitoring/http_board.hpp"
#include "actors/monitoring/key_search.hpp"
#include "common/limits.hpp"
#include "link/beats.hpp"
#include "link/protocol/message_types.hpp"
#include "storage/epoch_table.hpp"

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

namespace peercache::actors {

using overview_actor = caf::typed_actor<
    // From the links: a new view, or a change of a connection.
    caf::reacts_to<topology_atom, topology_ptr>,
    // From the HTTP server: somebody asks where the page of this key is. The text is the key's,
    // without an epoch.
    caf::reacts_to<locate_atom, std::string, from_here>,
    // From the HTTP thread: somebody looks at the cluster, which nobody did for a while.
    caf::reacts_to<turn_atom, from_here>,
    // From itself: time to ask the nodes, while somebody looks or collects metrics.
    caf::reacts_to<beat_atom, from_here>>;

/// Most keys that are looked up at the same time, and most answers about keys that are kept.
inline constexpr std::size_t key_searches_max = 16;
inline constexpr std::size_t key_answers_max = 32;

struct overview_options {
  std::string cluster;
  discovery::member self;
  gateway_actor gateway; ///< The gateway of this node.
  std::shared_ptr<http_board> board;
  std::uint32_t replicas = limits::directory_replicas_default; ///< Number of owners of each key.
  storage::epoch_table epochs;
  /// Time between two beats while somebody looks or collects metrics.
  std::chrono::milliseconds turn{250};
  /// Longest wait for a node's answer. The parts of its answer come within one second, or are left
  /// out.
  std::chrono::milliseconds answer_timeout{2000};
  /// The nodes are asked until nobody has looked for this time.
  std::chrono::milliseconds looking_lasts{10'000};
  /// The node that tells the faults asks each node this often until nobody has collected metrics
  /// for `scraping_lasts`.
  std::chrono::milliseconds watch_every{10'000};
  std::chrono::milliseconds scraping_lasts{120'000};
};

struct overview_state {
  overview_state() = default;
  overview_options options;
  cluster_overview seen;
  cluster_history history;
  bool heard_history = false; ///< `history` has changed since it was last put on the board.
  /// Open searches, by the text of their key without an epoch.
  std::map<std::string, key_search> searches;
  link::beats beats;
  static inline const char* name = "overview";
};

/// Collects the state and the history of all nodes for the HTTP thread. Threads: scheduler. Asks:
/// the gateways of all nodes, while somebody looks at the page or at `/api/`, and more rarely while
/// somebody collects the metrics of the cluster's leader, which tells the cluster's faults; and the
/// directories of the owners of a key that somebody asks for. No actor waits for this one.
overview_actor::behavior_type run_overview(overview_actor::stateful_pointer<overview_state> self,
                                           overview_options options);

} // namespace peercache::actors
