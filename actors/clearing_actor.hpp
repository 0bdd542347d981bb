#pragma once

#include "actors/cleared_spaces.hpp"
#include "actors/link_names.hpp"
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

struct clearing_options {
  cleared_spaces spaces; ///< With what the disk remembers.
  incarnation self;
  pool_actor pool;
  disk_actor disk; ///< Remembers for the next process; null: no page outlives this one.
  /// Called in this actor, once: clients of this host can be let in.
  std::function<void()> caught_up = [] {};
  /// Keeps it for the next process that has the pool's memory.
  std::function<void(const life_record&)> note = [](const life_record&) {};
  /// Keeps this durably for the next process that has the disk, which does nothing else any more;
  /// blocks. Empty, or why that did not work.
  std::function<std::string(const std::string& encoded)> keep_at_end = [](const std::string&) {
    return std::string{};
  };
  std::function<std::uint64_t()> unix_seconds = [] { return std::uint64_t{0}; };
  std::chrono::milliseconds beat{100};
  /// Of another node's answer, which may withdraw millions of pages first.
  std::chrono::milliseconds answer_timeout{2000};
};

struct clearing_state {
  clearing_state() = default;

  /// A clear that is not certain yet.
  struct open_clear {
    space_id space;
    epoch_number epoch = 0;
    caf::actor_clock::time_point until;
    caf::typed_response_promise<clear_report> promise;
  };

  clearing_options options;
  cleared_spaces spaces;
  topology_ptr cluster;
  std::string kept_bytes;      ///< What the disk was given last.
  std::string why_not_kept;    ///< Empty when that is well.
  std::size_t keeping = 0;     ///< Requests to the disk that are not answered,
  std::size_t withdrawing = 0; ///< and to the pool.
  /// Nodes that wait for the answer to what they told.
  std::map<incarnation, caf::typed_response_promise<std::string>> tellers;
  std::map<incarnation, std::uint64_t> asked; ///< Whose answer is awaited, to which question.
  std::uint64_t questions = 0;
  std::vector<open_clear> open;
  std::uint64_t certain = 0, uncertain = 0; ///< Clears that were answered.
  bool announced = false;                   ///< That this node has caught up.
  bool left = false;                        ///< This node has left for good.
  bool says_goodbye = false;                ///< The next process will know that it left.
  life_record noted;
  /// When those left behind are waited for no longer.
  std::optional<caf::actor_clock::time_point> waits_until;
  static inline const char* name = "clearing";

  bool is_member() const noexcept { return cluster && cluster->find(options.self) != nullptr; }
  /// All that it knows is done here: no older page is in memory, and the disk remembers it.
  bool done() const noexcept { return withdrawing == 0 && keeping == 0 && why_not_kept.empty(); }
  clear_report report_of(const open_clear& clear) const;
  clearing_report report() const;
  /// Whether this member is to be told something, or asked.
  bool is_due(const discovery::member& whom) const;
};

/// Which spaces were cleared, on this node and on all others.
///
/// A clear raises the space's epoch here, keeps it on the disk, has the pool give up what is older,
/// and tells every member, each of which does the same before it answers. It is certain when all
/// members have answered by the very view that this node has, and nobody who was a member may live
/// out of reach. Why that is enough: docs/flows.md, "Clear".
///
/// Threads: scheduler. Asks: other nodes, always with a time-out; pool and disk, and waits for the
/// disk no longer than a beat before it tells others what it knows.
clearing_actor::behavior_type run_clearing(clearing_actor::stateful_pointer<clearing_state> self,
                                           clearing_options options);

} // namespace peercache::actors
