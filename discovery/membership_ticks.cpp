// When the membership protocol needs its next tick.

#include "common/beat_time.hpp"
#include "discovery/membership.hpp"

#include <algorithm>

namespace peercache::discovery {

time_point membership::next_tick(time_point now) const {
  const auto last_moment = std::max(next_beat_, now) - duration(1);
  const auto heartbeat = next_beat(last_moment, options_.heartbeat);
  if (busy() || (!only_heard_ && !calm(heartbeat)))
    return next_beat(now, options_.heartbeat / 4);
  return heartbeat;
}

/// Whether something is under way that the next `tick` has to continue.
bool membership::busy() const {
  if (phase_ != phase::joined || round_ || survey_ || change_is_due_ || outbid_ > view_.stamp())
    return true;
  if (!joining_.empty() || !leavers_.empty() || !vouched_.empty() || !elsewhere_.empty())
    return true;
  if ((leads() && !forgotten_.empty()) || (view_.fragment() && is_whole_with(view_.members)))
    return true;
  return view_.find(self_.inc)->draining != self_.draining;
}

/// Whether all members that this node hears, and all addresses that answer it, will still count as
/// heard at `until`, even if nobody is heard again before. A member that is not a master hears only
/// masters. @pre joined
bool membership::calm(time_point until) const {
  const bool hears_all = is_master();
  const bool some_silent =
      std::any_of(view_.members.begin(), view_.members.end(), [&](const member& m) {
        return m.inc != self_.inc && (hears_all || view_.is_master(m.name)) &&
               liveness_.silent(m.inc, until);
      });
  const auto own = control_endpoint(self_);
  const bool some_owe_answers =
      std::any_of(answered_.begin(), answered_.end(), [&](const auto& entry) {
        return entry.first != own && until - entry.second.at > options_.expiry;
      });
  return !some_silent && !some_owe_answers;
}

/// Whether a packet says only that its sender lives. A `fresh` answer also says that a member is
/// gone, and other answers may bring a newer view.
bool membership::only_says_of_life(const packet& received) {
  const auto* answer = std::get_if<heartbeat_answer_packet>(&received);
  return std::holds_alternative<heartbeat_packet>(received) ||
         (answer != nullptr && !answer->fresh && !answer->newer && !answer->change);
}

bool membership::beat_is_due() {
  if (now_ < next_beat_)
    return false;
  // `next_beat` is a multiple of the period, so all nodes of a host beat at the same moments. Beats
  // that fell due while this process was paused are skipped, not sent late.
  next_beat_ = next_beat(now_, options_.heartbeat);
  return true;
}

} // namespace peercache::discovery
