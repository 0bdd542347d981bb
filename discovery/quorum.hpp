#pragma once

#include "discovery/liveness.hpp"
#include "discovery/packet.hpp"

#include <cstddef>
#include <optional>
#include <unordered_set>

namespace peercache::discovery {

/// Masters that must accept the view after one with `masters` masters: a majority of three or more.
/// One or two decide alone: with two, asking the other would make each a single point of failure.
constexpr std::size_t votes_needed(std::size_t masters) noexcept {
  return masters < 3 ? 1 : masters / 2 + 1;
}

/// The promises and the accepted value of one process about the view after one base view (an
/// acceptor of single-decree Paxos). Voting about another base forgets those about the base before.
///
/// Threads: none; the owner serializes. Lives as long as the process: one that restarts has lost
/// it, therefore has another incarnation, and does not vote for the one that it was.
/// Invariants: 1. `promised` only grows while the base stays; 2. nothing is accepted below it.
class vote_memory {
public:
  /// @return Whether the promise is given (again).
  bool promise(const view_stamp& base, const ballot& attempt);
  /// @return Whether `value` is accepted (again).
  bool accept(const view_stamp& base, const ballot& attempt, const view& value);

  const ballot& promised() const noexcept { return promised_; }
  const std::optional<accepted_view>& accepted() const noexcept { return accepted_; }

private:
  void follow(const view_stamp& base);

  view_stamp base_;
  ballot promised_;
  std::optional<accepted_view> accepted_;
};

/// One attempt to make the view after a base view, as its proposer counts it: promises first, then
/// votes for one value; the second half alone for the leader of the base view, whose first attempt
/// is the oldest of all and has nothing to ask for.
///
/// Voters are the processes that the base view names as its masters. Once so many of them are known
/// to be gone for ever (others run in their places) that the rest is no majority, the successors'
/// votes count as well.
///
/// Threads: none; the owner serializes. Time is an argument.
class voting_round {
public:
  voting_round(view base, const ballot& attempt, time_point now)
      : base_(std::move(base)), attempt_(attempt), since_(now) {}

  /// The second half begins, with the value that promises brought (`inherited`) or a new one.
  void propose(view value, bool inherited, time_point now);

  /// Counts one vote; what is not of this half, or not of a master, changes nothing.
  void count(const vote_packet& vote);
  bool enough() const noexcept { return enough_with(0, 0); }
  /// Whether the votes would be enough with so many more.
  bool enough_with(std::size_t voters, std::size_t successors) const noexcept;
  /// Whether the votes can still become enough: with so many more of each kind, and with
  /// `undecided` further answers of which it is not known whether they come from voters or from
  /// successors.
  bool possible_with(std::size_t voters, std::size_t successors,
                     std::size_t undecided) const noexcept;
  /// Whether the vote answers this half.
  bool concerns(const vote_packet& vote) const noexcept;
  /// Whether this master voted, or the process in its place did.
  bool granted_by(const member& master) const;
  bool denied_by(node_id master) const { return against_.count(master) > 0; }
  bool decided(const member& master) const { return granted_by(master) || denied_by(master.id); }

  const view& base() const noexcept { return base_; }
  const ballot& attempt() const noexcept { return attempt_; }
  voting_step step() const noexcept { return step_; }
  time_point since() const noexcept { return since_; }
  bool inherited() const noexcept { return inherited_; }
  /// @pre step() == propose
  const view& value() const noexcept { return value_; }
  /// The accepted value of the newest attempt among the promises: it may be decided already.
  const std::optional<accepted_view>& found() const noexcept { return found_; }
  /// Another process said that it runs in this master's place.
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
