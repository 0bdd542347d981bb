#include "discovery/quorum.hpp"

#include "common/assert.hpp"
#include "common/guards.hpp"
#include "common/limits.hpp"

#include <algorithm>
#include <utility>

namespace peercache::discovery {

std::vector<std::string> choose_masters(const std::vector<member>& members, const endpoint& head,
                                        std::uint32_t max_masters) {
  PEERCACHE_ASSERT(!members.empty());
  std::vector<const member*> order;
  order.reserve(members.size());
  for (const auto& m : members)
    order.push_back(&m);
  std::sort(order.begin(), order.end(), [&head](const member* a, const member* b) {
    bool a_is_head = control_endpoint(*a) == head;
    bool b_is_head = control_endpoint(*b) == head;
    return a_is_head != b_is_head ? a_is_head : a->id < b->id;
  });
  order.resize(std::min<std::size_t>({order.size(), max_masters, masters_max}));
  std::vector<std::string> names;
  names.reserve(order.size());
  for (const auto* m : order)
    names.push_back(m->name);
  return names;
}

bool vote_memory::promise(const view_stamp& base, const ballot& attempt) {
  follow(base);
  if (attempt < promised_)
    return false;
  promised_ = attempt;
  PEERCACHE_ASSERT(!accepted_ || accepted_->in <= promised_);
  return true;
}

bool vote_memory::accept(const view_stamp& base, const ballot& attempt, const view& value) {
  follow(base);
  if (attempt < promised_)
    return false;
  promised_ = attempt;
  accepted_ = {attempt, value};
  return true;
}

void vote_memory::follow(const view_stamp& base) {
  if (base == base_)
    return;
  base_ = base;
  promised_ = {};
  accepted_.reset();
}

void voting_round::propose(view value, bool inherited, time_point now) {
  step_ = voting_step::propose;
  value_ = std::move(value);
  inherited_ = inherited;
  since_ = now;
  voters_.clear();
  successors_.clear();
  against_.clear();
}

bool voting_round::concerns(const vote_packet& vote) const noexcept {
  return vote.base == base_.stamp() && vote.attempt == attempt_ && vote.step == step_;
}

void voting_round::count(const vote_packet& vote) {
  const auto* master = base_.find(vote.voter);
  if (!concerns(vote) || master == nullptr || !base_.is_master(master->name))
    return;
  // A voter that never heard of the base view says that it is a successor, though the base may name
  // this very process; so the vote's incarnation decides whether it is a master's vote.
  const bool successor = vote.inc != master->inc;
  if (successor && !vote.successor)
    return;
  if (successor)
    gone_.insert(vote.voter);
  if (vote.answer != verdict::granted) {
    against_.insert(vote.voter);
    return;
  }
  against_.erase(vote.voter);
  if (successor)
    successors_.insert(vote.voter);
  else
    voters_.insert(vote.inc);
  if (vote.accepted && (!found_ || found_->in < vote.accepted->in))
    found_ = vote.accepted;
}

bool voting_round::reached(std::size_t voters, std::size_t successors,
                           std::size_t gone) const noexcept {
  const auto masters = base_.masters.size();
  const auto needed = guard_on(guard::majority) ? votes_needed(masters) : 1;
  const bool originals_cannot = masters - std::min(gone, masters) < needed;
  return voters >= needed || (originals_cannot && voters + successors >= needed);
}

bool voting_round::enough_with(std::size_t voters, std::size_t successors) const noexcept {
  const auto granting = successors_.size() + successors;
  return reached(voters_.size() + voters, granting, std::max(gone_.size(), granting));
}

bool voting_round::possible_with(std::size_t voters, std::size_t successors,
                                 std::size_t undecided) const noexcept {
  voters += voters_.size();
  const auto gone = gone_.size() + successors;
  successors += successors_.size();
  // Each undecided answer may come from a master or from its successor; the vote is possible if
  // either assumption gives enough.
  return reached(voters + undecided, successors, gone) ||
         reached(voters, successors + undecided, gone + undecided);
}

bool voting_round::granted_by(const member& master) const {
  return voters_.count(master.inc) > 0 || successors_.count(master.id) > 0;
}

} // namespace peercache::discovery
