// Leaving in the membership protocol: what the leaving member does, and what other members do.

#include "common/limits.hpp"
#include "discovery/membership.hpp"

#include <algorithm>
#include <utility>

namespace peercache::discovery {

std::vector<action> membership::leave(time_point now) {
  if (phase_ == phase::left)
    return {};
  now_ = std::max(now_, now);
  auto members = view_.members;
  std::erase_if(members, [this](const member& m) { return m.inc == self_.inc; });
  bool decides = leads() && votes_needed(view_.masters.size()) == 1 && !members.empty();
  phase_ = phase::left;
  left_at_ = now_;
  round_.reset();
  if (decides)
    commit(next_view(view_.term + 1, std::move(members)));
  else
    tell_of_leaving();
  return take_actions();
}

bool membership::may_end(time_point now) const {
  if (phase_ != phase::left || votes_needed(view_.masters.size()) == 1 ||
      !view_.is_master(self_.name) || newest_.find(self_.inc) == nullptr)
    return true;
  return std::all_of(view_.members.begin(), view_.members.end(), [&](const member& m) {
    return m.inc == self_.inc || liveness_.silent(m.inc, now);
  });
}

/// Whether this leaving master should make a view without itself: all masters are leaving or
/// silent, and the members that stay cannot change their view alone. Masters try in turn, one
/// heartbeat apart.
bool membership::closes_the_door() const {
  if (phase_ != phase::left || !view_.is_master(self_.name))
    return false;
  duration turn{};
  bool before = true;
  for (const auto& name : view_.masters) {
    before = before && name != self_.name;
    if (before)
      turn += options_.heartbeat;
    if (name != self_.name && !liveness_.silent(view_.find_name(name)->inc, now_))
      return false;
  }
  return now_ - left_at_ >= turn && !may_end(now_);
}

/// Whether a process that has left still handles the packet: votes, views, and other processes'
/// leaving.
bool membership::hears_after_leaving(const packet& received) {
  // The sender of a heartbeat counts as heard, so that this process knows which members are left. A
  // heartbeat gets no answer, since an answer would make other nodes take this leaving process for
  // a living member.
  if (const auto* beat = std::get_if<heartbeat_packet>(&received))
    liveness_.heard(beat->inc, now_);
  return std::holds_alternative<prepare_packet>(received) ||
         std::holds_alternative<propose_packet>(received) ||
         std::holds_alternative<vote_packet>(received) ||
         std::holds_alternative<view_packet>(received) ||
         std::holds_alternative<view_change_packet>(received) ||
         std::holds_alternative<leave_packet>(received);
}

std::vector<action> membership::tick_after_leaving() {
  pursue();
  ask_again_if_due();
  if (beat_is_due() && !may_end(now_))
    tell_of_leaving();
  return take_actions();
}

/// Sends a leave packet to everybody who may lead, including the seeds, which may not be members.
void membership::tell_of_leaving() {
  for (auto& target : who_may_lead())
    send(std::move(target), leave_packet{self_.inc});
}

/// Remembers that the process leaves. Besides members, as many processes are remembered as a
/// cluster may have members, and not none: an applicant may leave before it is taken in, and a
/// member before this node hears of the view that has it.
void membership::note_leaver(const incarnation& inc) {
  if (leavers_.size() < limits::members_max || leavers_.contains(inc) || liveness_.follows(inc) ||
      newest_.find(inc) != nullptr)
    leavers_.insert_or_assign(inc, now_);
}

void membership::handle(const leave_packet& p) {
  if (p.inc == self_.inc)
    return;
  note_leaver(p.inc);
  liveness_.declare_dead(p.inc);
  std::erase_if(joining_, [&p](const auto& entry) { return entry.second.who.inc == p.inc; });
  change_is_due_ = true;
  // A leaving master repeats its leave packet for as long as its vote counts, so the packet shows
  // that the leaver still answers requests for votes.
  if (const auto* leaver = view_.find(p.inc))
    if (auto at = answered_.find(control_endpoint(*leaver)); at != answered_.end())
      at->second = {now_, p.inc};
}

} // namespace peercache::discovery
