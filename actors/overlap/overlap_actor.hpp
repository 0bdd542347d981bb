#pragma once

#include "actors/link_names.hpp"
#include "actors/overlap/gpu_window.hpp"
#include "actors/overlap/overlap_search.hpp"
#include "common/limits.hpp"
#include "link/protocol/message_types.hpp"
#include "link/protocol/topology.hpp"
#include "metrics/http_server.hpp"
#include "storage/epoch_table.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
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
    caf::reacts_to<locate_atom, overlap_call_ptr>,
    // Gateway, for clients of this host and the CLI: the same question as an encoded overlap_query,
    // and when it came, in nanoseconds of the actors' clock. Answers encoded overlap_matches.
    caf::replies_to<locate_atom, std::string, std::int64_t, from_here>::with<std::string>,
    // Gateway, for a session: an encoded gpu_report. Answers whether it was taken.
    caf::replies_to<gpu_atom, std::uint64_t, std::string, from_here>::with<bool>,
    // Gateway: the session with this number has ended, or its connection is lost.
    caf::reacts_to<leave_atom, std::uint64_t, from_here>,
    // Gateway, for the overlap of another node: an encoded gpu_question. Answers an encoded
    // gpu_run.
    caf::replies_to<gpu_atom, std::string, from_here>::with<std::string>,
    // Gateway: asks for the numbers of the window.
    caf::replies_to<stats_atom>::with<metrics::samples>>;

/// Most queries that are answered at the same time; further ones are told to ask again.
inline constexpr std::size_t overlap_queries_max = 64;
/// Most keys of all queries that are being answered; some hundred bytes are held for each key.
inline constexpr std::size_t overlap_keys_open_max = 8 * overlap_question::keys_max;

struct overlap_options {
  node_id own;                                                 ///< Id of this node.
  directory_actor directory;                                   ///< The shard of this node.
  std::uint32_t replicas = limits::directory_replicas_default; ///< Number of owners of each key.
  storage::epoch_table epochs;
  /// Longest time from the arrival of a query to its answer, which has what is known by then. A
  /// query that was not looked at by then is refused. An owner gets half of the time, so that
  /// another owner can be asked.
  std::chrono::milliseconds patience{500};
  /// How long a node is not asked for blocks on GPUs after it has said that its engines told of
  /// none, or has not answered in half of `patience`.
  std::chrono::milliseconds windowless_for{1000};
  std::size_t gpu_keys = 0; ///< Most keys that the engines of this host may tell of.
};

/// Where the answer to a query goes. One of the functions is called, once.
struct overlap_asker {
  std::function<void(const overlap_question&, std::span<const node_overlap>,
                     const discovery::view&)>
      answer;
  /// @param status as HTTP has it: 400 for a wrong query, 503 where asking again may help
  std::function<void(int status, const std::string& why)> refuse;
};

/// A query that is being answered.
struct running_overlap {
  overlap_asker asker;
  overlap_search search;
  std::chrono::steady_clock::time_point until{};
  std::size_t asked = 0; ///< Questions that have not been answered yet.
};

struct overlap_state {
  overlap_state() = default;
  overlap_options options;
  topology_ptr latest;
  gpu_window window{0};
  /// Nodes that are not asked for blocks on GPUs before these times.
  std::map<incarnation, std::chrono::steady_clock::time_point> windowless;
  std::map<std::uint64_t, running_overlap> running;
  std::uint64_t last = 0;    ///< Number of the newest query.
  std::size_t open_keys = 0; ///< Keys of all queries that are being answered.
  static inline const char* name = "overlap";
};

/// Answers routers' queries how much of a prompt each node has, and keeps the window of the blocks
/// that engines of this host hold on their GPUs. Threads: scheduler. Asks: the directories of the
/// owners of a query's keys, and the gateways of other nodes for their windows. A node is asked for
/// the first block, and for all blocks only if it has the first one; a node whose engines tell of
/// no blocks is asked once a second at most. The gateway passes queries on, and waits only for this
/// actor's numbers.
overlap_actor::behavior_type run_overlap(overlap_actor::stateful_pointer<overlap_state> self,
                                         overlap_options options);

} // namespace peercache::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(peercache::actors::overlap_call_ptr)
