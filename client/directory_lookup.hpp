#pragma once

#include "client/cache_client.hpp"
#include "client/counters.hpp"
#include "client/lookup_channels.hpp"
#include "client/lookup_course.hpp"
#include "client/lookup_plan.hpp"
#include "client/peer_health.hpp"
#include "client/session.hpp"

#include <memory>
#include <span>
#include <vector>

namespace peercache::client {

/// Asks the owners of many keys at once, one message an owner; client/lookup_plan.hpp and
/// lookup_course.hpp decide which owners, and interpret the answers. When a shard speaks of a newer
/// view, that view is fetched from the shard's node, once a call. Threads: one object per call. The
/// call may ask for its keys in pieces: an owner that failed for one piece is not asked for the
/// next. Bound: returns by the deadline; keys that are open then are `timed_out`.
class directory_lookup {
public:
  directory_lookup(session& with, lookup_channels& channels, peer_health& health, counters& totals);

  /// @pre answers.size() == keys.size()
  void run(std::span<const page_key> keys, std::span<lookup_answer> answers, deadline until);

private:
  /// One owner that is being asked in a round.
  struct question {
    const lookup_plan::share* share = nullptr;
    const link::peer* owner = nullptr;
    /// Connection to the owner; null when the question has ended.
    std::unique_ptr<net::frame_channel> channel;
    deadline until;
    bool ready = false; ///< The channel's socket was ready at the last wait.
  };

  /// Gives the plan the newest view that this process has.
  void follow(lookup_plan& plan);
  /// Fetches the newer view that a shard spoke of.
  void refresh(lookup_plan& plan, deadline until);
  /// Sends a round's questions and takes all answers that come in time.
  void ask(const std::vector<lookup_plan::share>& shares, deadline until);
  /// Waits until one of the questions can go on, or has no time left.
  void wait(std::span<question> asked);
  /// Moves one question on, as far as its socket allows.
  void advance(question& asked);
  void failed(question& asked, page_status reason);

  session& session_;
  lookup_channels& channels_;
  peer_health& health_;
  lookup_course course_;
  counters& counters_;
  own_pool_ptr own_;
  link::topology_ptr cluster_;
};

} // namespace peercache::client
