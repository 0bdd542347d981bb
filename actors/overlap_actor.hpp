#pragma once

#include "actors/link_names.hpp"
#include "actors/overlap_search.hpp"
#include "link/protocol/message_types.hpp"
#include "link/protocol/topology.hpp"
#include "metrics/http_server.hpp"
#include "storage/epoch_table.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

namespace peercache::actors {

/// A query as it came over HTTP, and where its answer goes.
struct overlap_call {
  std::string body;
  bool by_hash = false;      ///< Blocks are named by hashes, not by tokens.
  metrics::http_reply reply; ///< Sends the answer; called once.
  /// When the query came, by the clock of the actors.
  std::chrono::steady_clock::time_point arrived{};
};
using overlap_call_ptr = std::shared_ptr<overlap_call>;

using overlap_actor = caf::typed_actor<
    // From the links: a new view, or a change of a connection.
    caf::reacts_to<topology_atom, topology_ptr>,
    // From the HTTP server: a router asks how much of a prompt each node has.
    caf::reacts_to<locate_atom, overlap_call_ptr>>;

/// Most queries that are answered at the same time; further ones are told to ask again.
inline constexpr std::size_t overlap_queries_max = 64;
/// Most keys of all queries that are being answered; some hundred bytes are held for each key.
inline constexpr std::size_t overlap_keys_open_max = 8 * overlap_question::keys_max;

struct overlap_options {
  node_id own;                ///< Id of this node.
  directory_actor directory;  ///< The shard of this node.
  std::uint32_t replicas = 2; ///< Number of owners of each key.
  storage::epoch_table epochs;
  /// Longest time from the arrival of a query to its answer, which has what is known by then. A
  /// query that was not looked at by then is refused. An owner gets half of the time, so that
  /// another owner can be asked.
  std::chrono::milliseconds patience{500};
};

/// A query that is being answered.
struct running_overlap {
  overlap_call_ptr call;
  overlap_search search;
  std::chrono::steady_clock::time_point until{};
  std::size_t asked = 0; ///< Owners that have not answered yet.
};

struct overlap_state {
  overlap_state() = default;
  overlap_options options;
  topology_ptr latest;
  std::map<std::uint64_t, running_overlap> running;
  std::uint64_t last = 0;    ///< Number of the newest query.
  std::size_t open_keys = 0; ///< Keys of all queries that are being answered.
  static inline const char* name = "overlap";
};

/// Answers routers' queries how much of a prompt each node has. Threads: scheduler. Asks: the
/// directories of the owners of a query's keys. No actor waits for this one.
overlap_actor::behavior_type run_overlap(overlap_actor::stateful_pointer<overlap_state> self,
                                         overlap_options options);

} // namespace peercache::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(peercache::actors::overlap_call_ptr)
