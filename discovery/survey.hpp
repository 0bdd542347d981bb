#pragma once

#include "discovery/liveness.hpp"

#include <cstddef>
#include <optional>
#include <unordered_map>
#include <vector>

namespace peercache::discovery {

/// Finds out, for a node that hears too few masters, which other nodes are left of its cluster and
/// whether this node should make a view of them. The first living node, in an order that all nodes
/// know, makes the view; for that it asks all nodes who lives. Each other node asks only the nodes
/// placed before it, with each heartbeat twice as many as before, until one answers. There are no
/// survivors as long as some answer says "in touch with enough masters": then the cluster goes on,
/// and takes this node in again when it can.
///
/// Threads: none; the owner serializes. Time is an argument. Invariant: a survey finds no survivors
/// within the first `expiry * waits + heartbeat * gathers` after its construction, nor after an
/// answer that said "in touch".
class survey {
public:
  /// How many expiries pass before a view is made: masters that restart or thaw are back by then.
  static constexpr int waits = 2;
  /// For how many heartbeats everybody is asked: more than one, since a packet may be lost.
  static constexpr int gathers = 2;

  /// @param order Nodes that may be left; the first living one makes the view. @pre `self` is among
  /// them
  survey(std::vector<member> order, const incarnation& self, duration heartbeat, duration expiry,
         time_point now);

  /// Notes that the process `who` answered a heartbeat. @param in_touch Whether `who` said that
  /// enough masters answer it.
  void heard(const incarnation& who, bool in_touch, time_point now);
  /// The addresses to which the heartbeat that is due at `now` goes.
  std::vector<endpoint> to_ask(time_point now);
  /// All nodes that are left, including this one, once it is known that this node has to make a
  /// view of them; before that an empty list.
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
  std::size_t rank_ = 0;  ///< Index of this node in `order_`.
  std::size_t asked_ = 0; ///< How many of the nodes placed before this one are asked.
  time_point asked_at_;   ///< When the survey began to ask the last node placed before this one.
  time_point since_;
  std::optional<time_point> gathering_since_;
  std::unordered_map<incarnation, answer> answers_;
};

} // namespace peercache::discovery
