// The work of masters in the membership protocol: deciding who makes the next view, making views
// and publishing them.

#include "common/assert.hpp"
#include "common/guards.hpp"
#include "common/limits.hpp"
#include "discovery/membership.hpp"
#include "discovery/view_codec.hpp"

#include <algorithm>
#include <iterator>

namespace peercache::discovery {

/// If the cluster needs another view and this node should make it, makes it or starts a vote on it.
void membership::pursue() {
  if (round_ && now_ - round_->since() >= options_.expiry / 2)
    end_round(duration::zero());
  std::erase_if(joining_, [this](const auto& entry) {
    return now_ - entry.second.asked_at > options_.expiry;
  });
  std::erase_if(leavers_, [this](const auto& entry) {
    return now_ - entry.second > options_.expiry && view_.find(entry.first) == nullptr;
  });
  std::erase_if(vouched_, [this](const auto& entry) { return now_ >= entry.second; });
  if (round_ || !may_propose() || frozen(now_))
    return;
  auto members = wanted_members();
  if (members.empty() || !wants_other_view(members))
    return;
  if (votes_needed(base().masters.size()) > 1)
    start_round(std::move(members));
  else
    commit(next_view(newest_.term + 1, std::move(members)));
}

/// Whether this node is the one that should make the next view.
bool membership::may_propose() const {
  if (phase_ == phase::left)
    return closes_the_door();
  if (acts_as_successor())
    return stands_in() && now_ >= stand_in_at_;
  // A rejoining node waits for the masters of the newer view to take it in. If they do not in time,
  // or all of them were replaced, the node goes on from its own view, with a term above the newer
  // view's.
  bool time_is_up = now_ - rejoining_since_ > 2 * options_.expiry || newest_is_orphaned();
  return (phase_ == phase::joined || time_is_up) && first_living_master();
}

/// Whether `master`, of this node's view, is heard and does not live in an ignored fragment.
bool membership::lives_here(const member& master) const {
  return !liveness_.silent(master.inc, now_) && elsewhere_.count(master.inc) == 0;
}

/// Whether this node is a master of its view and no master placed before it is alive in that view.
bool membership::first_living_master() const {
  for (const auto& name : view_.masters) {
    if (name == self_.name)
      return true;
    if (lives_here(*view_.find_name(name)))
      return false;
  }
  return false;
}

/// The members of the base view without the silent ones and with the nodes that asked to come in.
std::vector<member> membership::wanted_members() const {
  auto members = base().members;
  bool as_successor = acts_as_successor();
  if (as_successor)
    // A successor of a gone master hears no members yet, so it leaves out only members that are
    // known to be replaced.
    std::erase_if(members, [this](const member& m) {
      return m.id == self_.id || (round_ && round_->succeeded(m.id));
    });
  else
    std::erase_if(members, [this](const member& m) {
      return m.inc == self_.inc ? phase_ == phase::left
                                : liveness_.silent(m.inc, now_) && vouched_.count(m.inc) == 0;
    });
  if (as_successor || (phase_ != phase::left && view_.find(self_.inc)->draining != self_.draining))
    take_in(members, self_);
  return with_applicants(std::move(members));
}

/// The view after the base view, with `members`. The next view's version is higher than any that
/// this process has proposed: another process may have finished such a proposal unnoticed, and
/// where two masters decide alone, two views of one term may follow each other.
/// @param term Term of the new view if it is whole; a fragment keeps the term of its base.
view membership::next_view(std::uint64_t term, std::vector<member> members) const {
  view next;
  next.term = term;
  if (!is_whole_with(members)) {
    next.term = std::max(base().term, newest_.term);
    next.former_masters = base().former_masters;
  }
  next.version = std::max({view_.version, newest_.version, version_proposed_}) + 1;
  next.masters = choose_masters(members, head_, options_.max_masters);
  next.members = std::move(members);
  next.issuer = self_.inc;
  next.gone = gone_after(next);
  PEERCACHE_ASSERT(next.newer_than(base()) || !guard_on(guard::view));
  return next;
}

/// Ends the vote with the decided view `next`: sends it to everyone concerned, and adopts it unless
/// something newer is known or `next` lacks this process.
void membership::commit(const view& next) {
  round_.reset();
  publish(next);
  if (!next.newer_than(newest_)) {
    consider(next);
    return;
  }
  // A fault that tests switch on: old views arrive late. At this point `view_` is still the view
  // before `next`.
  if (auto one_in = fault_setting(fault::old_views_one_in);
      one_in != 0 && next.version % one_in == 0)
    for (const auto& m : next.members)
      if (m.inc != self_.inc && view_.find(m.inc) != nullptr)
        send(control_endpoint(m), view_packet{view_});
  if (next.find(self_.inc) != nullptr) {
    adopt(next);
    return;
  }
  // `next` lacks this process, which finished a vote for a proposer that is gone. The members of
  // `next` should make the view after it, so this process waits before it acts.
  consider(next);
  stand_in_after(options_.heartbeat / 4);
}

/// Sends `latest` to its members and to those that it leaves out: a leaving process waits for this
/// view, and a living one asks to come back. Members of the base view get the difference, as long
/// as this process goes on in `latest`: whoever lacks the base asks it for the whole view.
void membership::publish(const view& latest) {
  const auto& before = base();
  const bool goes_on =
      phase_ != phase::left && latest.newer_than(newest_) && latest.find(self_.inc) != nullptr;
  const auto change = goes_on ? difference_between(before, latest) : std::nullopt;
  for (const auto& m : latest.members) {
    if (m.inc == self_.inc)
      continue;
    const auto* known = before.find(m.id);
    if (change && known != nullptr && known->inc == m.inc)
      send(control_endpoint(m), view_change_packet{control_endpoint(self_), *change});
    else
      send(control_endpoint(m), view_packet{latest});
  }
  for (const auto& m : before.members)
    if (m.inc != self_.inc && latest.find(m.id) == nullptr)
      send(control_endpoint(m), view_packet{latest});
}

/// Remembers the addresses of members that `before` had and this node's view lacks: a process that
/// starts there may know dead seeds only, so masters look for it.
void membership::remember_former(const view& before) {
  auto is_back = [this](const member& m) { return view_.find(m.id) != nullptr; };
  std::erase_if(former_, is_back);
  std::remove_copy_if(before.members.begin(), before.members.end(), std::back_inserter(former_),
                      is_back);
  if (former_.size() > limits::former_members_max)
    former_.erase(former_.begin(), former_.end() - limits::former_members_max);
  std::erase_if(forgotten_,
                [this](const std::string& name) { return view_.find_gone(name) == nullptr; });
}

/// Notes an answer: who lives, when the address of a master last answered, and, for a survey, which
/// members live. A member is declared dead when a process that was never in a view (`fresh`)
/// answers at the member's address.
void membership::note_answer(const heartbeat_answer_packet& p) {
  note_heard_by(p.inc, p.from);
  if (survey_)
    survey_->heard(p.inc, p.in_touch, now_);
  if (!p.fresh)
    return;
  for (const auto& m : view_.members)
    if (m.inc != p.inc && control_endpoint(m) == p.from) {
      liveness_.declare_dead(m.inc);
      change_is_due_ = true;
    }
}

} // namespace peercache::discovery
