// Membership after a majority of the masters is no longer heard: how the members that are left go
// on in a fragment.

#include "common/assert.hpp"
#include "common/guards.hpp"
#include "discovery/membership.hpp"

#include <algorithm>
#include <utility>

namespace peercache::discovery {

namespace {

void sort_by_id(std::vector<member>& members) {
  std::sort(members.begin(), members.end(),
            [](const member& a, const member& b) { return a.id < b.id; });
}

/// Appends the members of `of` that `order` lacks: the masters in their order, then the other
/// members by id.
void append_in_order(std::vector<member>& order, const view& of) {
  const auto append = [&order](const member& m) {
    const auto known = [&m](const member& other) { return other.id == m.id; };
    if (std::none_of(order.begin(), order.end(), known))
      order.push_back(m);
  };
  for (const auto& name : of.masters)
    append(*of.find_name(name));
  for (const auto& m : of.members)
    if (!of.is_master(m.name))
      append(m);
}

} // namespace

/// Counts the masters of this node's view that answer, and the other processes that answer at a
/// master's address.
membership::masters_heard membership::hear_masters(time_point now) const {
  masters_heard heard;
  for (const auto& name : view_.masters) {
    const auto& master = *view_.find_name(name);
    const auto at = answered_.find(control_endpoint(master));
    if (name == self_.name)
      ++heard.originals;
    else if (elsewhere_.count(master.inc) > 0)
      continue;
    else if (at != answered_.end() && now - at->second.at <= options_.expiry)
      ++(at->second.by == master.inc ? heard.originals : heard.successors);
  }
  return heard;
}

/// Whether enough masters of this node's view answer for the view to be changed. Successors of
/// masters count as they do in a vote.
bool membership::in_touch(time_point now) const {
  if (phase_ != phase::joined || !guard_on(guard::fragment))
    return false;
  const auto heard = hear_masters(now);
  const auto needed = votes_needed(view_.masters.size());
  const bool originals_cannot = view_.masters.size() - heard.successors < needed;
  return heard.originals >= needed ||
         (originals_cannot && heard.originals + heard.successors >= needed);
}

bool membership::cut_off() const {
  if (phase_ == phase::rejoining)
    return now_ - cluster_heard_at_ > options_.expiry;
  return phase_ == phase::joined && !in_touch(now_);
}

/// Runs the survey while this node is cut off, and makes the fragment when the survey names
/// survivors.
void membership::survey_if_cut_off() {
  if (!cut_off()) {
    survey_.reset();
    return;
  }
  if (!survey_) {
    std::vector<member> order;
    append_in_order(order, newest_);
    append_in_order(order, view_);
    // While rejoining, the newest view may name another process under this node's id: this process
    // takes that entry's place in the survey.
    if (auto own = std::find_if(order.begin(), order.end(),
                                [this](const member& m) { return m.id == self_.id; });
        own != order.end())
      *own = *view_.find(self_.inc);
    survey_.emplace(std::move(order), self_.inc, options_.heartbeat, options_.expiry, now_);
  }
  auto left = survey_->survivors(now_);
  if (left.empty())
    return;
  std::erase_if(left, [this](const member& m) { return leavers_.count(m.inc) > 0; });
  sort_by_id(left);
  survey_.reset();
  commit(fragment_of(with_applicants(std::move(left))));
}

/// Makes a fragment with `members`: newer than the newest known view, and older than any view that
/// the masters of the newest known view make.
view membership::fragment_of(std::vector<member> members) const {
  auto made = next_view(newest_.term, std::move(members));
  made.term = newest_.term;
  made.former_masters = newest_.former_masters;
  if (!newest_.fragment())
    for (const auto& name : newest_.masters)
      made.former_masters.push_back(*newest_.find_name(name));
  sort_by_id(made.former_masters);
  PEERCACHE_ASSERT(made.fragment() && made.newer_than(newest_));
  return made;
}

/// Whether a view with `members` is no longer a fragment: a majority of the masters that were lost
/// is in it again, either themselves or by processes in their places.
bool membership::is_whole_with(const std::vector<member>& members) const {
  const auto& former = base().former_masters;
  const auto back = std::count_if(former.begin(), former.end(), [&members](const member& master) {
    return std::any_of(members.begin(), members.end(),
                       [&master](const member& m) { return m.id == master.id; });
  });
  return former.empty() || static_cast<std::size_t>(back) >= votes_needed(former.size());
}

/// Whether `received` is a fragment of the view in which this node and a majority of its masters
/// live: this node ignores such a fragment, and the majority's next view is newer. A majority that
/// needs successors' votes may make no next view: successors that have learnt of the fragment, in
/// which they are not masters, vote for nobody and wait to be taken in; with such a majority this
/// function returns false.
bool membership::is_to_be_outbid(const view& received) const {
  return received.fragment() && !view_.fragment() && received.term == view_.term &&
         phase_ == phase::joined && guard_on(guard::fragment) &&
         hear_masters(now_).originals >= votes_needed(view_.masters.size());
}

/// Whether the cluster needs a next view with `members`: the members differ, a fragment has to be
/// outbid, a gone member has to be forgotten, or this node's fragment becomes whole.
bool membership::wants_other_view(const std::vector<member>& members) const {
  return phase_ != phase::joined || members != view_.members || outbid_ > view_.stamp() ||
         forgets_some() || (view_.fragment() && is_whole_with(members));
}

} // namespace peercache::discovery
