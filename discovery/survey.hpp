#pragma once

#include "discovery/liveness.hpp"

#include <cstddef>
#include <optional>
#include <unordered_map>
#include <vector>

namespace peercache::discovery {

/// Finds out, for a node that hears too few masters, who else is left of its cluster and whether
/// this node is to make a view of them. The first living node in an order that all know does so,
/// and asks everybody. Each other node asks only those before itself, with each heartbeat twice as
/// many as before, until one answers. There are no survivors as long as some answer says "in touch
/// with enough masters": then the cluster goes on, and takes this node in again when it can.
///
/// Threads: none; the owner serializes. Time is an argument. Invariant: it takes
/// `expiry * waits + heartbeat * gathers` at least, from its construction or since somebody was
/// in touch, until there are survivors.
class survey {
public:
  /// Expiries before a view is made: masters that restart or thaw are back by then.
  static constexpr int waits = 2;
  /// Heartbeats in which everybody is asked: one packet may be lost.
  static constexpr int gathers = 2;

  /// @param order Of those that may be left; the first living one acts. @pre `self` is among them
  survey(std::vector<member> order, const incarnation& self, duration heartbeat, duration expiry,
         time_point now);

  /// This process answered a heartbeat. @param in_touch As it said of itself.
  void heard(const incarnation& who, bool in_touch, time_point now);
  /// Where the heartbeat that is due now is to be sent.
  std::vector<endpoint> to_ask(time_point now);
  /// All who are left, this node included, once it is known that this node makes a view of them;
  /// until then nobody.
  std::vector<member> survivors(time_point now);

private:
  struct answer {
    time_point at;
    bool in_touch = false;
  };

  bool lives(std::size_t index, time_point now) const;
  std::optional<std::size_t> first_living(time_point now) const;
  bool somebody_in_touch(time_point now) const;
  bool is_first(time_point now) const;

  const std::vector<member> order_;
  const duration heartbeat_;
  const duration expiry_;
  std::size_t rank_ = 0;  ///< This node's place in the order.
  std::size_t asked_ = 0; ///< How many of the nodes before this one are asked.
  time_point asked_at_;   ///< When the last of them was asked.
  time_point since_;
  std::optional<time_point> gathering_since_;
  std::unordered_map<incarnation, answer> answers_;
};

} // namespace peercache::discovery
