#pragma once

#include "client/lookup/datagram_round.hpp"
#include "client/lookup/lookup_carrier.hpp"
#include "client/lookup/lookup_channels.hpp"
#include "client/lookup/lookup_course.hpp"
#include "client/lookup/lookup_plan.hpp"
#include "client/lookup/remote_shards.hpp"
#include "client/notes/call_watch.hpp"
#include "client/notes/counters.hpp"
#include "client/read/peer_health.hpp"
#include "client/session/session.hpp"
#include "client/values/pages.hpp"
#include "common/page_key.hpp"
#include "common/page_status.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

namespace peercache::client {

/// Asks the owners of many keys at once, one message per owner; client/lookup/lookup_plan.hpp and
/// lookup_course.hpp decide which owners, and interpret the answers; a lookup_carrier brings each
/// message. When a shard speaks of a newer view, that view is fetched from the shard's node, at
/// most once per call. Threads: one object per call. The call may ask for its keys in pieces: an
/// owner that failed for one piece is not asked for the next. Bound: returns by the deadline; keys
/// that are open then are `timed_out`.
class directory_lookup {
public:
  /// Takes the places of keys that owners have answered for since the last call; a key that was
  /// found is a `hit` by then, and one that nobody has found yet `pending`. A key may come twice.
  /// Returns until when it wants to be called again, answers or not.
  using while_asking = std::function<deadline(std::span<const std::uint32_t> told)>;

  /// @param meanwhile is called with the keys while the first owners answer; may be empty
  directory_lookup(session& with, lookup_channels& channels, remote_shards& shards,
                   peer_health& health, counters& totals,
                   std::function<void(std::span<const page_key>)> meanwhile);

  /// Looks keys up in the directory, and writes one answer for each. @param during is called before
  /// each wait; may be empty @pre answers.size() == keys.size()
  void run(std::span<const page_key> keys, std::span<lookup_answer> answers, deadline until,
           const while_asking& during = {});
  /// The longest wait for an owner, over all pieces.
  const longest_wait& slowest() const noexcept { return slowest_; }

private:
  /// One owner that is being asked.
  struct conversation {
    lookup_course::question* question = nullptr;
    std::unique_ptr<lookup_carrier> carrier;
    bool ready = false; ///< The carrier can go on, by what the last wait has found.
  };

  /// Gives the plan the newest view that this process has.
  void follow(lookup_plan& plan);
  /// The node in the topology that is followed, or null. Each owner is asked for several times, and
  /// a search among a thousand members costs as much as a datagram's way through a thread.
  const link::peer* peer_of(node_id id);
  /// Fetches the newer view that a shard spoke of.
  void refresh(lookup_plan& plan, deadline until);
  /// Asks the questions of one round.
  void ask(std::vector<lookup_course::question*> round);
  /// Chooses how a question travels to its owner. @param questions of the same round
  std::unique_ptr<lookup_carrier> carrier_to(const link::peer& owner, std::size_t request_bytes,
                                             std::size_t questions);
  /// How the shard of this owner is searched: by the view that the look-up follows.
  directory::remote_search::asking asking_of(node_id owner) const;
  /// Waits until one of the conversations can go on, or the course has something to decide.
  void wait(deadline until);
  /// Waits for answers that take microseconds. Returns whether one has come.
  bool wait_briefly(deadline until);
  /// Moves the conversations on that can go on.
  void advance();
  /// Tells the course how one conversation has come out, if it is over.
  void take(conversation& with, lookup_carrier::state now);
  /// Ends the conversations whose questions have ended: a late answer must not be taken for the
  /// answer to the next question.
  void drop_ended();
  void end_all(page_status reason);
  /// Tells the caller which keys were answered since the last call. Returns when it wants the next
  /// one.
  deadline tell();

  session& session_;
  lookup_channels& channels_;
  remote_shards& shards_;
  peer_health& health_;
  lookup_course course_;
  counters& counters_;
  datagram_round datagrams_;
  const while_asking* during_ = nullptr; ///< The caller's, in this look-up; may be empty.
  std::vector<std::uint32_t> told_; ///< Keys that owners have answered for since the last `tell`.
  std::vector<pollfd> waiting_;     ///< What the last wait has waited for.
  longest_wait slowest_;
  own_pool_ptr own_;
  link::topology_ptr cluster_;
  std::unordered_map<node_id, const link::peer*> peers_; ///< Nodes of `cluster_` that were found.
  link::topology_ptr former_;         ///< Before the last refresh: carriers may name owners of it.
  std::vector<conversation> running_; ///< Ends before what its carriers refer to.
  const std::function<void(std::span<const page_key>)> meanwhile_;
};

} // namespace peercache::client
