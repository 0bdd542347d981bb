#include "discovery/quorum.hpp"

#include <utility>

namespace peercache::discovery {

bool vote_memory::promise(const view_stamp& base, const ballot& attempt) {
  follow(base);
  if (attempt < promised_)
    return false;
  promised_ = attempt;
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
  if (!concerns(vote) || master == nullptr || !base_.is_master(master->name) ||
      vote.successor == (vote.inc == master->inc))
    return;
  if (vote.answer != verdict::granted) {
    against_.insert(vote.voter);
    return;
  }
  against_.erase(vote.voter);
  if (vote.successor)
    successors_.insert(vote.voter);
  else
    voters_.insert(vote.inc);
  if (vote.accepted && (!found_ || found_->in < vote.accepted->in))
    found_ = vote.accepted;
}

bool voting_round::enough_with(std::size_t voters, std::size_t successors) const noexcept {
  voters += voters_.size();
  successors += successors_.size();
  auto masters = base_.masters.size();
  auto needed = votes_needed(masters);
  bool originals_cannot = masters - successors < needed;
  return voters >= needed || (originals_cannot && voters + successors >= needed);
}

bool voting_round::granted_by(const member& master) const {
  return voters_.count(master.inc) > 0 || succeeded(master.id);
}

} // namespace peercache::discovery
