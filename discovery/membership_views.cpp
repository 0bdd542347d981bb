// The views of the membership protocol: how a process takes a view that it is sent, whole or as a
// difference, and what changes with it.

#include "common/assert.hpp"
#include "common/guards.hpp"
#include "discovery/membership.hpp"

#include <algorithm>
#include <utility>

namespace peercache::discovery {

namespace {

/// Whether `seen` and `self` are the same process, whatever the view says about its draining.
bool same_process(member seen, const member& self) {
  seen.draining = self.draining;
  return seen == self;
}

} // namespace

void membership::handle(const view_packet& p) {
  consider(p.latest);
}

void membership::handle(const view_change_packet& p) {
  hear_of(p.change.stamp);
  if (const auto latest = made_by(p.change))
    consider(*latest);
  else
    ask_for_view(p.from, p.change.stamp);
}

/// The view that `change` makes of a view that this process has; nothing when it does not have the
/// base.
std::optional<view> membership::made_by(const view_difference& change) const {
  auto made = apply(change, newest_);
  return made ? made : apply(change, view_);
}

/// Asks the node at `from`, which knows the view `stamp`, for the whole of that view, by an answer
/// that names no view as known. A process that leaves asks for nothing, since an answer would make
/// other nodes take it for a living member.
void membership::ask_for_view(const endpoint& from, const view_stamp& stamp) {
  if (phase_ == phase::left || stamp <= newest_.stamp())
    return;
  auto answer = answer_to_heartbeat();
  answer.known = {};
  send(from, std::move(answer));
}

/// The newest view for a node that says that it knows the view `known`: the difference, if that is
/// the view before, otherwise the whole view. A process that leaves answers nobody who cannot apply
/// a difference, so it sends whole views only.
packet membership::newest_for(const view_stamp& known) const {
  if (last_change_ && last_change_->base == known && phase_ != phase::left)
    return view_change_packet{control_endpoint(self_), *last_change_};
  return view_packet{newest_};
}

/// Handles a view that somebody sent. A view whose numbers are not credible changes nothing. An
/// older view than the newest known one is at most a view to fall back to (`stand_on`). After a
/// newer view without this node, the node joins again.
void membership::consider(const view& received) {
  if (!is_credible(received.stamp()))
    return;
  if (received == newest_ || (!received.newer_than(newest_) && guard_on(guard::view))) {
    if (phase_ == phase::rejoining && received.newer_than(view_) && received.find(self_.inc))
      stand_on(received);
    return;
  }
  if (is_to_be_outbid(received)) {
    outbid_ = std::max(outbid_, received.stamp());
    change_is_due_ = true;
    return;
  }
  learn(received);
  cluster_heard_at_ = now_;
  round_.reset();
  const auto* own = received.find(self_.inc);
  if (own != nullptr && same_process(*own, self_)) {
    adopt(received);
    return;
  }
  if (phase_ == phase::left)
    return;
  if (is_master())
    tell_who_is_out_as_well();
  if (phase_ == phase::joined)
    phase_ = phase::rejoining;
  survey_.reset();
  // The members of the newer view get time to answer before this node goes on from its own view or
  // founds a cluster.
  rejoining_since_ = now_;
  found_at_ = std::max(found_at_, now_ + options_.expiry);
  stand_in_after(options_.heartbeat);
  send_joins();
}

/// Takes `latest` as the newest view, and keeps the difference for nodes that know the one before.
void membership::learn(const view& latest) {
  if (latest == newest_)
    return;
  last_change_ = difference_between(newest_, latest);
  newest_ = latest;
}

/// Sends the newest view to the members that it leaves out together with this master. Those members
/// send heartbeats to this master; by this message they learn at once that they are out.
void membership::tell_who_is_out_as_well() {
  for (const auto& m : view_.members)
    if (m.inc != self_.inc && newest_.find(m.id) == nullptr)
      send(control_endpoint(m), view_packet{newest_});
}

/// Takes `decided` as this node's view without living in it, because a newer view was made without
/// this process. Should that newer view stand still, the masters of `decided` make the next one.
void membership::stand_on(const view& decided) {
  const bool was_master = view_.is_master(self_.name);
  succeed_own_view(decided, was_master);
}

/// Replaces this node's view by `latest` and brings all state that depends on the view up to it:
/// the voting round, the survey, liveness, answering masters and former members.
void membership::succeed_own_view(const view& latest, bool was_master) {
  PEERCACHE_ASSERT(latest.find(self_.inc) != nullptr && !latest.masters.empty());
  PEERCACHE_ASSERT(!latest.newer_than(newest_) || !guard_on(guard::view));
  const auto before = std::exchange(view_, latest);
  const auto& old_masters = before.masters;
  round_.reset();
  survey_.reset();
  elsewhere_.clear();
  liveness_.watch(view_.members, now_);
  // Plain members send no heartbeats to plain members, so this member has heard nothing of a new
  // master yet: the master counts as heard of from now on.
  if (!was_master)
    for (const auto& m : view_.members)
      if (std::find(old_masters.begin(), old_masters.end(), m.name) == old_masters.end())
        liveness_.heard(m.inc, now_);
  // `latest` may still have members that have said since that they leave (`leavers_`): such members
  // count as dead.
  for (const auto& [inc, said_at] : leavers_)
    liveness_.declare_dead(inc);
  declare_replaced_dead();
  watch_masters(old_masters);
  remember_former(before);
}

void membership::adopt(const view& latest) {
  PEERCACHE_ASSERT(!view_.newer_than(latest) || !guard_on(guard::view));
  bool was_master = is_master();
  PEERCACHE_ASSERT(!newest_.newer_than(latest) ||
                   !guard_on(guard::view)); // The newest stamp known never decreases.
  learn(latest);
  if (phase_ != phase::left)
    phase_ = phase::joined;
  refused_reason_.clear();
  next_round_at_ = now_;
  std::erase_if(joining_, [&latest](const auto& entry) {
    const auto* in_view = latest.find(entry.first);
    return in_view != nullptr && *in_view == entry.second.who;
  });
  change_is_due_ = !joining_.empty();
  succeed_own_view(latest, was_master);
  add<adopt_view>().latest = view_;
}

/// Starts to watch the answers of the view's masters. The address of a master that was not a master
/// in the previous view counts as answering now.
void membership::watch_masters(const std::vector<std::string>& old_masters) {
  auto before = std::exchange(answered_, {});
  std::erase_if(greeted_, [this](const auto& entry) { return view_.find(entry.first) == nullptr; });
  for (const auto& name : view_.masters) {
    auto at = control_endpoint(*view_.find_name(name));
    bool was = std::find(old_masters.begin(), old_masters.end(), name) != old_masters.end();
    auto known = before.find(at);
    answered_[at] =
        was && known != before.end() ? known->second : answer{now_, view_.find_name(name)->inc};
  }
}

} // namespace peercache::discovery
