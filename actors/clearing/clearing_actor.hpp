#pragma once

#include "actors/clearing/cleared_spaces.hpp"
#include "actors/link_names.hpp"
#include "link/beats.hpp"
#include "link/protocol/clearing.hpp"
#include "link/protocol/disk.hpp"
#include "link/protocol/pool.hpp"
#include "link/protocol/topology.hpp"

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace peercache::actors {

/// Options of the clearing actor. Threads: the functions are called in that actor; of them only
/// `keep_at_end` may block. Lifetime: what the functions refer to outlives the actor.
struct clearing_options {
  /// Filled with what the disk and the pool's memory remember of the previous process.
  cleared_spaces spaces;
  incarnation self;
  pool_actor pool;
  /// Remembers the clears for the next process; null: no page outlives this process.
  disk_actor disk;
  /// Called in this actor, once in the life of the process, when clients of this host can be let
  /// in.
  std::function<void()> caught_up = [] {};
  /// Called in this actor, when an epoch has risen or the table was closed, and before anybody is
  /// told of it.
  std::function<void()> epochs_changed = [] {};
  /// Keeps the life record for the next process, beside the pool's memory that it takes over.
  std::function<void(const life_record&)> note = [](const life_record&) {};
  /// Keeps the encoded cleared spaces durably for the next process that has the disk. Called when
  /// the disk no longer does anything else; blocks. Returns nothing, or why it failed.
  std::function<std::string(const std::string& encoded)> keep_at_end = [](const std::string&) {
    return std::string{};
  };
  std::function<std::uint64_t()> unix_seconds = [] { return std::uint64_t{0}; };
  std::chrono::milliseconds beat{100}; ///< Time between two beats while there is something to do.
  /// Longest wait for another node's answer; that node may have to withdraw millions of pages
  /// first.
  std::chrono::milliseconds answer_timeout{2000};
};

/// State of the clearing actor: the spaces that were cleared, and who has yet to hear or to answer.
///
/// Threads: the actor's messages, one at a time. Invariant: each promise in `tellers` and `open` is
/// answered once, and leaves its container then.
struct clearing_state {
  clearing_state() = default;

  /// A client's clear that is not answered yet.
  struct open_clear {
    space_id space;
    epoch_number epoch = 0;
    caf::actor_clock::time_point until;
    caf::typed_response_promise<clear_report> promise;
  };

  clearing_options options;
  cleared_spaces spaces;
  topology_ptr cluster;
  std::string kept_bytes; ///< Encoded cleared spaces that the disk was given last.
  /// Why the disk does not keep the bytes that it was given last; empty when it does.
  std::string why_not_kept;
  std::size_t keeping = 0;     ///< Unanswered requests to the disk.
  std::size_t withdrawing = 0; ///< Unanswered requests to the pool.
  /// Nodes that have told this node something and wait for its answer.
  std::map<incarnation, caf::typed_response_promise<std::string>> tellers;
  /// Members whose answer is awaited, each with the number of the question.
  std::map<incarnation, std::uint64_t> asked;
  std::uint64_t questions = 0;
  std::vector<open_clear> open;
  metrics::samples totals; ///< Counts the clears that were answered.
  bool announced = false;  ///< `options.caught_up` was called.
  bool left = false;       ///< This node has left for good.
  /// The record for the node's next process says that this process left.
  bool says_goodbye = false;
  life_record noted;
  /// End of the wait for nodes that were left behind; nothing while there is no such wait.
  std::optional<caf::actor_clock::time_point> waits_until;
  link::beats beats;
  static inline const char* name = "clearing";

  bool is_member() const noexcept { return cluster && cluster->find(options.self) != nullptr; }
  /// Whether this node has acted on all clears that it knows: no page older than its space's epoch
  /// is in memory, and the disk remembers the epochs.
  bool done() const noexcept { return withdrawing == 0 && keeping == 0 && why_not_kept.empty(); }
  clear_report report_of(const open_clear& clear) const;
  metrics::samples samples() const;
  /// Whether this node should tell the member which clears it knows, or ask the member.
  bool is_due(const discovery::member& whom) const;
  /// Whether this node has something to hear, to tell or to answer at its next beat.
  bool has_news() const;
};

/// Knows which spaces were cleared, and clears spaces on this node and on all others.
///
/// A clear raises the space's epoch here, keeps it on the disk, has the pool give up older pages,
/// and tells every member; each member does the same before it answers. The clear is certain when
/// all members have answered by the very view that this node has, and no former member can still
/// live, unreachable. docs/flows.md, "Clear", says why that is enough.
///
/// Threads: scheduler. Asks: other nodes, always with a time-out; pool and disk. The actor waits
/// for the disk no longer than a beat before it tells other nodes which clears it knows.
clearing_actor::behavior_type run_clearing(clearing_actor::stateful_pointer<clearing_state> self,
                                           clearing_options options);

} // namespace peercache::actors
