#pragma once

#include "discovery/liveness.hpp"
#include "discovery/packet.hpp"

#include <cstddef>
#include <optional>
#include <unordered_set>

namespace peercache::discovery {

/// Names of the masters of a cluster with these members: the pinned head first if it is a member,
/// then by node_id, `max_masters` at most. An id is a hash of the node's name, so hosts with
/// neighbouring names, which may fail together, are no likelier masters than others.
/// @pre `members` is not empty.
std::vector<std::string> choose_masters(const std::vector<member>& members, const endpoint& head,
                                        std::uint32_t max_masters);

/// How many masters of a view must accept the next view: a majority of three or more. One or two
/// masters decide alone: if two masters had to agree, each would be a single point of failure.
constexpr std::size_t votes_needed(std::size_t masters) noexcept {
  return masters < 3 ? 1 : masters / 2 + 1;
}

/// The promises and the accepted value of one process about the view after one base view (an
/// acceptor of single-decree Paxos). A vote about another base view makes the memory forget the
/// votes about the earlier base.
///
/// Threads: none; the owner serializes. Lives as long as the process: a process that restarts has
/// lost its memory, therefore has another incarnation, and does not vote for its former self.
/// Invariants: 1. `promised` only grows while the base stays; 2. no ballot below `promised` is
/// accepted.
class vote_memory {
public:
  /// Promises to vote in no attempt older than `attempt`. @return Whether the promise is given; a
  /// repeated call gives it again.
  bool promise(const view_stamp& base, const ballot& attempt);
  /// Accepts `value` in `attempt`. @return Whether `value` is accepted; a repeated call accepts it
  /// again.
  bool accept(const view_stamp& base, const ballot& attempt, const view& value);

  const ballot& promised() const noexcept { return promised_; }
  const std::optional<accepted_view>& accepted() const noexcept { return accepted_; }

private:
  void follow(const view_stamp& base);

  view_stamp base_;
  ballot promised_;
  std::optional<accepted_view> accepted_;
};

/// An attempt to make the view after a base view, as its proposer counts the votes: a first half of
/// promises, then a second half of votes for one value. The leader of the base view skips the first
/// half in its first attempt, which is the oldest of all and has nothing to ask for.
///
/// Voters are the processes that the base view names as its masters. When other processes run in
/// the places of some of them and the remaining masters are not a majority, the successors' votes
/// count as well.
///
/// Threads: none; the owner serializes. Time is an argument.
class voting_round {
public:
  voting_round(view base, const ballot& attempt, time_point now)
      : base_(std::move(base)), attempt_(attempt), since_(now) {}

  /// Begins the second half of the attempt, with the value that promises brought (`inherited`) or a
  /// new one.
  void propose(view value, bool inherited, time_point now);

  /// Counts one vote; a vote for the half that is not under way, or by a process that is neither a
  /// master nor in a master's place, changes nothing.
  void count(const vote_packet& vote);
  bool enough() const noexcept { return enough_with(0, 0); }
  /// Whether the votes would be enough with `voters` more masters' and `successors` more
  /// successors' votes.
  bool enough_with(std::size_t voters, std::size_t successors) const noexcept;
  /// Whether the votes can still become enough with `voters` and `successors` more votes of each
  /// kind and `undecided` further answers, of which it is not known whether they come from masters
  /// or from successors.
  bool possible_with(std::size_t voters, std::size_t successors,
                     std::size_t undecided) const noexcept;
  /// Whether the vote belongs to this attempt and to the half that it is in now.
  bool concerns(const vote_packet& vote) const noexcept;
  /// Whether this master, or the process in its place, granted its vote.
  bool granted_by(const member& master) const;
  bool denied_by(node_id master) const { return against_.count(master) > 0; }
  bool decided(const member& master) const { return granted_by(master) || denied_by(master.id); }

  const view& base() const noexcept { return base_; }
  const ballot& attempt() const noexcept { return attempt_; }
  voting_step step() const noexcept { return step_; }
  time_point since() const noexcept { return since_; }
  bool inherited() const noexcept { return inherited_; }
  /// The value that is voted on. @pre step() == propose
  const view& value() const noexcept { return value_; }
  /// The accepted value of the newest attempt that the promises told of: it may be decided already.
  const std::optional<accepted_view>& found() const noexcept { return found_; }
  /// Whether another process said that it runs in this master's place.
  bool succeeded(node_id master) const { return gone_.count(master) > 0; }

private:
  bool reached(std::size_t voters, std::size_t successors, std::size_t gone) const noexcept;

  const view base_;
  const ballot attempt_;
  time_point since_;
  voting_step step_ = voting_step::prepare;
  std::optional<accepted_view> found_;
  view value_;
  bool inherited_ = false;
  std::unordered_set<incarnation> voters_;
  std::unordered_set<node_id> successors_;
  std::unordered_set<node_id> against_;
  std::unordered_set<node_id> gone_; ///< Masters in whose place another process runs.
};

} // namespace peercache::discovery
