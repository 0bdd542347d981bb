// The agreement of three or more masters on the next view (single-decree Paxos for each view).

#include "common/assert.hpp"
#include "discovery/membership.hpp"

#include <algorithm>
#include <utility>

namespace peercache::discovery {

/// The view that this process's next view follows: the newest known view when this process acts for
/// a gone master of that view, otherwise this process's own view.
const view& membership::base() const {
  return acts_as_successor() ? newest_ : view_;
}

/// Whether this process may bring about the view after the newest one although the newest one does
/// not contain it. A rejoining process, which has a view of its own, goes back to that view when
/// the newest one stands still.
bool membership::acts_as_successor() const {
  if (phase_ == phase::rejoining)
    return stands_in() && now_ - rejoining_since_ <= 2 * options_.expiry;
  return phase_ == phase::looking;
}

/// Whether this process runs in the place of a gone master of the newest view.
bool membership::stands_in() const {
  if (phase_ == phase::joined || phase_ == phase::left || newest_.find(self_.inc) != nullptr)
    return false;
  return votes_needed(newest_.masters.size()) > 1 && newest_.is_master(self_.name);
}

/// Sets when this process may act for a gone master. Before that time members with a newer view
/// would have been heard, because they send heartbeats. Successors of different masters get
/// different times, because two attempts at once would outbid each other.
void membership::stand_in_after(duration wait) {
  const auto& masters = newest_.masters;
  const auto turn = std::find(masters.begin(), masters.end(), self_.name) - masters.begin();
  stand_in_at_ =
      std::max(began_ + options_.expiry / 2, now_ + wait) + turn * options_.heartbeat / 4;
}

/// Starts an attempt to make the next view. The leader's first attempt skips the promises: its
/// ballot is the oldest of all, so no earlier attempt can have accepted anything.
void membership::start_round(std::vector<member> members) {
  if (now_ < next_round_at_)
    return;
  PEERCACHE_ASSERT(!round_); // A process makes one attempt at a time.
  if (leads() && led_ != view_.stamp()) {
    led_ = view_.stamp();
    round_.emplace(base(), ballot{view_.term, self_.inc}, now_);
    propose(next_view(view_.term + 1, std::move(members)), false);
    return;
  }
  // The leader's first attempt, which needs no promises, makes a view of the term `view_.term + 1`,
  // so every other attempt takes a higher term than that.
  term_seen_ = std::max({term_seen_, newest_.term, view_.term + 1}) + 1;
  round_.emplace(base(), ballot{term_seen_, self_.inc}, now_);
  ask_masters();
  proceed();
}

void membership::propose(view value, bool inherited) {
  // An attempt proposes one value.
  PEERCACHE_ASSERT(round_ && round_->step() == voting_step::prepare);
  if (!inherited)
    version_proposed_ = value.version;
  round_->propose(std::move(value), inherited, now_);
  ask_masters();
  proceed();
}

/// A wait that ends by the second tick from now. While something is under way, ticks come at
/// multiples of a quarter of the heartbeat, so the first tick may come at once.
duration membership::until_next_tick() const noexcept {
  return options_.heartbeat / 8;
}

/// Asks all other masters that have not granted their vote, or the processes in their places, to
/// vote.
void membership::ask_masters() {
  ask_again_at_ = now_ + until_next_tick();
  auto ask = [this](const auto& question) {
    for (const auto& name : round_->base().masters) {
      const auto& master = *round_->base().find_name(name);
      const auto* replaced_by = who_replaced(master);
      if (name != self_.name && !round_->granted_by(master) && vote_is_wanted(master))
        send(control_endpoint(replaced_by != nullptr ? *replaced_by : master), question);
    }
  };
  if (round_->step() == voting_step::prepare)
    ask(own_prepare());
  else
    ask(own_proposal());
}

/// The process that runs in the master's place and has asked to join; null when there is none. A
/// process of the master's name on another host has no vote while the master may live.
const member* membership::who_replaced(const member& master) const {
  const auto asks = joining_.find(master.id);
  const bool replaced = asks != joining_.end() && asks->second.who.inc != master.inc &&
                        !reason_to_refuse(asks->second.who);
  return replaced ? &asks->second.who : nullptr;
}

/// Whether `master`, or the process in its place, should be asked for its vote. A successor is not
/// asked to accept a value that the living masters can decide without it: once a voter has accepted
/// a value, the next attempt must finish that value even if this attempt fails.
bool membership::vote_is_wanted(const member& master) const {
  const auto& masters = round_->base().masters;
  const auto is_gone = [this](const member& m) {
    return round_->succeeded(m.id) || who_replaced(m) != nullptr;
  };
  const auto there = std::count_if(masters.begin(), masters.end(), [&](const std::string& name) {
    return !is_gone(*round_->base().find_name(name));
  });
  return round_->step() == voting_step::prepare || !is_gone(master) ||
         static_cast<std::size_t>(there) < votes_needed(masters.size());
}

void membership::ask_again_if_due() {
  if (!round_ || now_ < ask_again_at_)
    return;
  ask_masters();
  proceed();
}

prepare_packet membership::own_prepare() const {
  return {control_endpoint(self_), self_.id, round_->base().stamp(), round_->attempt()};
}

propose_packet membership::own_proposal() const {
  return {control_endpoint(self_), round_->base().stamp(), round_->attempt(), round_->inherited(),
          round_->value()};
}

/// Casts this node's own vote. The node accepts its own proposal last, when its vote completes the
/// number needed: an accepted value cannot be taken back, even when all others refuse it.
void membership::vote_oneself() {
  auto* memory = memory_for(round_->base().stamp(), round_->attempt(), control_endpoint(self_));
  if (memory == nullptr)
    return;
  bool successor = blank_vote(round_->base().stamp(), round_->attempt()).successor;
  if (round_->step() == voting_step::prepare)
    round_->count(cast(own_prepare(), *memory));
  else if (round_->enough_with(successor ? 0 : 1, successor ? 1 : 0))
    round_->count(cast(own_proposal(), *memory));
}

void membership::handle(const vote_packet& p) {
  if (!is_credible(p.promised) ||
      (p.accepted && !(is_credible(p.accepted->in) && is_credible(p.accepted->value.stamp()))))
    return;
  term_seen_ = std::max(term_seen_, p.promised.term);
  // A veto that comes when its own attempt has ended is of use for the next attempt.
  for (const auto& inc : p.alive) {
    if (liveness_.follows(inc))
      vouched_.insert_or_assign(inc, now_ + options_.heartbeat);
    // A process that is heard long after it said that it leaves has not gone, or the leave packet
    // was forged.
    if (const auto at = leavers_.find(inc);
        at != leavers_.end() && now_ - at->second > options_.expiry)
      leavers_.erase(at);
  }
  if (!round_ || !round_->concerns(p))
    return;
  // A refusal without a newer ballot means that a master placed before this process runs, so this
  // process waits while that master makes its own attempt. A refusal because of a newer ballot
  // proves nothing: the maker of that ballot may be gone.
  if (p.answer == verdict::refused && acts_as_successor() && p.promised <= p.attempt)
    stand_in_at_ = now_ + 2 * options_.heartbeat;
  round_->count(p);
  proceed();
}

void membership::proceed() {
  PEERCACHE_ASSERT(round_);
  vote_oneself();
  if (!round_->enough()) {
    if (!votes_can_suffice())
      end_round(until_next_tick());
    return;
  }
  if (round_->step() == voting_step::propose) {
    auto decided = round_->value();
    commit(decided);
    return;
  }
  if (auto found = round_->found(); found && !superseded(found->value)) {
    propose(std::move(found->value), true);
    return;
  }
  auto members = wanted_members();
  if (!may_propose() || !wants_other_view(members))
    round_.reset();
  else
    propose(next_view(round_->attempt().term, std::move(members)), false);
}

/// Whether the accepted view `found` need not be finished: its one or two masters decide without a
/// vote, and the newest known view is not older than `found`.
bool membership::superseded(const view& found) const {
  return !found.newer_than(newest_) && votes_needed(found.masters.size()) == 1;
}

void membership::end_round(duration rest) {
  round_.reset();
  next_round_at_ = now_ + rest;
}

/// Whether the round can still succeed, if every asked master that answers this node and has not
/// voted yet grants its vote.
bool membership::votes_can_suffice() const {
  const auto& masters = round_->base().masters;
  auto undecided = std::count_if(masters.begin(), masters.end(), [this](const std::string& name) {
    const auto& master = *round_->base().find_name(name);
    bool answers = acts_as_successor();
    if (auto at = answered_.find(control_endpoint(master)); at != answered_.end())
      answers = answers || now_ - at->second.at <= options_.expiry;
    return name != self_.name && answers && !round_->decided(master) && vote_is_wanted(master);
  });
  const auto* own = round_->base().find(self_.id);
  const bool is_to_vote =
      own != nullptr && round_->base().is_master(own->name) && !round_->decided(*own);
  const bool original = is_to_vote && own->inc == self_.inc;
  return round_->possible_with(original ? 1 : 0, is_to_vote && !original ? 1 : 0,
                               static_cast<std::size_t>(undecided));
}

void membership::handle(const prepare_packet& p) {
  if (!is_credible(p.attempt))
    return;
  if (auto* memory = memory_for(p.base, p.attempt, p.from))
    send(p.from, cast(p, *memory));
}

void membership::handle(const propose_packet& p) {
  if (p.value.stamp() <= p.base || p.value.members.empty() || !is_credible(p.attempt) ||
      !is_credible(p.value.stamp()))
    return;
  if (auto* memory = memory_for(p.base, p.attempt, p.from))
    send(p.from, cast(p, *memory));
}

/// The memory of this process's votes about the view after `about`; null when it has no vote about
/// that view. An asker at `from` that knows an older view is sent the newest one; an asker that may
/// know a newer view is sent an answer with this node's older stamp, which makes the asker send its
/// view.
vote_memory* membership::memory_for(const view_stamp& about, const ballot& attempt,
                                    const endpoint& from) {
  term_seen_ = std::max(term_seen_, attempt.term);
  bool outdated = newest_.stamp() != about && newest_.term >= attempt.term;
  if (view_.term > 0 && view_.stamp() == about && !outdated)
    return view_.is_master(self_.name) ? &votes_ : nullptr;
  if (newest_.term > 0 && newest_.stamp() == about && stands_in())
    return successor_memory(about);
  // The asker may be going on from an older view because the one or two masters of the newest view
  // are gone, so this process votes.
  if (phase_ == phase::looking && newest_.stamp() > about && !outdated &&
      votes_needed(newest_.masters.size()) == 1)
    return successor_memory(about);
  if (newest_.stamp() > about)
    send(from, newest_for(about));
  else if (newest_.stamp() < about)
    send(from, answer_to_heartbeat());
  return nullptr;
}

/// The memory of votes about the view after `about`. Each base view has a memory of its own: two
/// nodes may ask about different views in turn, and if a vote about one view were forgotten for the
/// other, both attempts could win. Null when `about` is older than all remembered views.
vote_memory* membership::successor_memory(const view_stamp& about) {
  constexpr std::size_t remembered_max = 16;
  auto& all = successor_votes_;
  if (all.size() == remembered_max && all.count(about) == 0) {
    if (about < all.begin()->first)
      return nullptr;
    all.erase(all.begin());
  }
  return &all[about];
}

vote_packet membership::blank_vote(const view_stamp& about, const ballot& attempt) const {
  vote_packet vote;
  vote.voter = self_.id;
  vote.inc = self_.inc;
  vote.base = about;
  vote.attempt = attempt;
  vote.successor = view_.term == 0 || view_.stamp() != about;
  return vote;
}

vote_packet membership::cast(const prepare_packet& p, vote_memory& memory) const {
  auto vote = blank_vote(p.base, p.attempt);
  vote.step = voting_step::prepare;
  if (!better_placed_lives(p, vote.successor) && memory.promise(p.base, p.attempt)) {
    vote.answer = verdict::granted;
    vote.accepted = memory.accepted();
  }
  vote.promised = memory.promised();
  return vote;
}

vote_packet membership::cast(const propose_packet& p, vote_memory& memory) const {
  auto vote = blank_vote(p.base, p.attempt);
  vote.step = voting_step::propose;
  if (!p.inherited && !vote.successor && phase_ != phase::left)
    vote.alive = heard_but_missing(p.value);
  if (!vote.alive.empty()) {
    vote.answer = verdict::vetoed;
  } else if (memory.accept(p.base, p.attempt, p.value)) {
    vote.answer = verdict::granted;
  }
  vote.promised = memory.promised();
  return vote;
}

/// Whether, as far as this node knows, a master that is placed before the candidate of `p` runs. A
/// master of the view (`as_successor` false) that is not leaving also refuses candidates that are
/// successors of masters: when no master before it lives, this master leads itself.
bool membership::better_placed_lives(const prepare_packet& p, bool as_successor) const {
  const auto& about = as_successor ? newest_ : view_;
  if (as_successor && (about.stamp() != p.base || about.find(p.attempt.issuer) != nullptr))
    return false;
  for (const auto& name : about.masters) {
    const auto& master = *about.find_name(name);
    if (master.id == p.who)
      return !as_successor && phase_ != phase::left && master.inc != p.attempt.issuer;
    bool lives = name == self_.name ? !as_successor || acts_as_successor()
                                    : !as_successor && lives_here(master);
    if (lives && phase_ != phase::left)
      return true;
  }
  return phase_ != phase::left;
}

/// The members that this master hears, itself included, and that `value` does not contain.
std::vector<incarnation> membership::heard_but_missing(const view& value) const {
  std::vector<incarnation> heard;
  for (const auto& m : view_.members)
    if (value.find(m.id) == nullptr && (m.inc == self_.inc || !liveness_.silent(m.inc, now_)))
      heard.push_back(m.inc);
  return heard;
}

} // namespace peercache::discovery
