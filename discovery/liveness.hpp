#pragma once

#include "common/ids.hpp"
#include "discovery/view.hpp"

#include <chrono>
#include <span>
#include <unordered_map>

namespace peercache::discovery {

using time_point = std::chrono::steady_clock::time_point;
using duration = std::chrono::steady_clock::duration;

/// The times at which each member was last heard of.
///
/// Threads: none; the owner serializes. Time is an argument.
/// Invariant: no stored time is later than the latest `now` given.
class liveness {
public:
  /// @param expiry      A member that was not heard of for longer than this is silent.
  /// @param lost_expiry A member whose connection broke is silent when it was not heard of for
  /// longer than this after the break.
  liveness(duration expiry, duration lost_expiry) : expiry_(expiry), lost_expiry_(lost_expiry) {}

  /// Follows exactly `members` from now on; a member that was not followed before counts as heard
  /// of at `now`.
  void watch(std::span<const member> members, time_point now);

  /// @param patience How much longer than the expiry the member may not be heard of after this. A
  /// longer one that was given before goes on.
  void heard(const incarnation& inc, time_point now, duration patience = duration::zero());
  /// Notes that the member's connection broke: the member has `lost_expiry` to be heard again.
  void lost(const incarnation& inc, time_point now);
  /// Notes that the member is gone: it counts as silent at once, until it is heard again.
  void declare_dead(const incarnation& inc);
  /// Notes that this process itself stood still for `gap`, so that no member is blamed for not
  /// being heard meanwhile.
  void forgive(duration gap, time_point now);

  /// Whether this process is one of the members that are followed.
  bool follows(const incarnation& inc) const { return records_.contains(inc); }
  bool silent(const incarnation& inc, time_point now) const;
  /// Why the member is silent, or why it would be if it were not heard of again.
  departure why_silent(const incarnation& inc) const;

private:
  struct record {
    time_point heard_at;
    duration patience{};
    time_point lost_at;
    bool lost = false;
    bool dead = false;
  };

  const duration expiry_;
  const duration lost_expiry_;
  std::unordered_map<incarnation, record> records_;
};

} // namespace peercache::discovery
