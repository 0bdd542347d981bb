#pragma once

#include "actors/cluster_history.hpp"
#include "actors/cluster_overview.hpp"
#include "actors/http_board.hpp"
#include "actors/link_names.hpp"
#include "link/protocol/message_types.hpp"

#include <chrono>
#include <memory>
#include <string>

namespace peercache::actors {

using overview_actor = caf::typed_actor<
    // Links: tell a new view, or a change of a connection.
    caf::reacts_to<topology_atom, topology_ptr>,
    // Itself: asks the nodes, while somebody looks.
    caf::reacts_to<beat_atom, from_here>>;

struct overview_options {
  std::string cluster;
  discovery::member self;
  gateway_actor gateway; ///< The node's own.
  std::shared_ptr<http_board> board;
  std::chrono::milliseconds turn{250};
  /// How long a node is waited for. The parts of its answer come within one second, or are left
  /// out.
  std::chrono::milliseconds answer_timeout{2000};
  /// The nodes are asked until nobody has looked for so long.
  std::chrono::milliseconds looking_lasts{10'000};
};

struct overview_state {
  overview_state() = default;
  overview_options options;
  cluster_overview seen;
  cluster_history history;
  static inline const char* name = "overview";
};

/// Threads: scheduler. Asks: the gateways of all nodes, while somebody looks at the page or at
/// `/api/cluster`; nobody waits for it.
overview_actor::behavior_type run_overview(overview_actor::stateful_pointer<overview_state> self,
                                           overview_options options);

} // namespace peercache::actors
