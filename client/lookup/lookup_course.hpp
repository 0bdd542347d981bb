#pragma once

#include "client/lookup/lookup_plan.hpp"
#include "client/read/peer_health.hpp"
#include "client/values/pages.hpp"
#include "common/ids.hpp"
#include "common/page_status.hpp"

#include <functional>
#include <list>
#include <string_view>
#include <vector>

namespace peercache::client {

/// Guides one call through its look-ups, one after the other (a call asks for many keys in pieces):
/// decides when other owners are asked, how long an answer is waited for, and which owners are left
/// alone. An owner that has not answered after some milliseconds is overdue: the next owners of its
/// keys are asked, and the first good answer counts. An owner that fails is not asked again in this
/// call, an owner that was overdue to the end of a look-up only where nobody else is left; an owner
/// that failed in many calls is asked again when its breaker lets a call pass.
///
/// Threads: one. No clock, no I/O. Lifetime: `health` outlives the course, and each plan lives
/// until the next `begin`. Bounds: `lookup_plan::rounds_max` rounds per look-up; one newer view per
/// call.
class lookup_course {
public:
  /// A question to one owner. Lives until the next `begin`.
  struct question {
    lookup_plan::share share;
    incarnation owner;
    /// Since when the owner owes an answer: the time of this question, or of an earlier one that is
    /// not answered either.
    deadline asked_at;
    deadline overdue_at;
    /// End of the wait for an answer that can only be a second opinion.
    deadline opinion_until;
    bool open = true; ///< False: the owner has answered or failed, or its answer is of no use.
  };

  /// Returns the linked process of a node in the followed view; null when there is none.
  using process_of = std::function<const incarnation*(node_id)>;

  explicit lookup_course(peer_health& health) : health_(health) {}

  /// Begins the next look-up of the call, by this plan.
  void begin(lookup_plan& plan);
  /// Returns the questions to send now, if any. Questions that are open may end here, because their
  /// answers are no longer of use. Call until the look-up `is_over`: after each answer or failure,
  /// and at `next_look`.
  std::vector<question*> next_round(const process_of& linked, deadline now, deadline until);
  /// Returns when `next_round` has something to decide although nobody has answered; the maximum:
  /// never.
  deadline next_look() const noexcept { return next_look_; }
  /// Whether each key has its answer; no question is open then.
  bool is_over() const noexcept { return over_; }

  /// Takes an owner's answer. False: it is malformed, which counts as a failure. @pre asked.open
  bool answered(question& asked, std::string_view answer, deadline now);
  /// Notes that an owner has not answered, and why. @pre asked.open
  void failed(question& asked, page_status reason, deadline now);
  /// Whether to fetch, before the next round, the newer view that a shard spoke of: true at most
  /// once per call.
  bool wants_view() noexcept;

private:
  lookup_plan::use usable(node_id id, const incarnation* owner, deadline now);
  /// Marks questions as overdue and ends questions whose time is over, by the clock; sets
  /// `next_look_`.
  void look(deadline now, deadline until);
  deadline end_of(const question& asked, deadline until) const;
  /// Whether an owner is asked that is neither overdue nor has answered.
  bool is_waiting() const noexcept;
  /// The first overdue question of this look-up that the owner has not answered yet, or null. All
  /// questions to a silent owner share one wait, which begins with the first of them.
  const question* unanswered(node_id owner) const noexcept;
  std::vector<question*> ask(std::vector<lookup_plan::share> shares, const process_of& linked,
                             deadline now, deadline until);
  /// Ends a question that was not answered and whose answer is no longer of use.
  void give_up(question& asked, deadline now);

  peer_health& health_;
  lookup_plan* plan_ = nullptr;
  int rounds_ = 0; ///< Rounds of the current look-up.
  bool over_ = true;
  bool has_view_ = false;
  deadline next_look_ = deadline::max();
  std::list<question> questions_; ///< Questions of the current look-up; their addresses do not
                                  ///< change.
  std::vector<node_id> chosen_;   ///< Owners whose breaker has let this call pass.
  std::vector<node_id> given_up_; ///< Owners that failed in this call, or must be left alone.
  std::vector<node_id> silent_;   ///< Owners that have left a question of this call unanswered.
};

} // namespace peercache::client
