// What a master does: found, take over, admit, expire, publish.

#include "common/assert.hpp"
#include "common/guards.hpp"
#include "common/limits.hpp"
#include "discovery/membership.hpp"
#include "discovery/view_codec.hpp"

#include <algorithm>
#include <iterator>

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
    return a_is_head != b_is_head ? a_is_head : natural_less(a->name, b->name);
  });
  order.resize(std::min<std::size_t>({order.size(), max_masters, masters_max}));
  std::vector<std::string> names;
  names.reserve(order.size());
  for (const auto* m : order)
    names.push_back(m->name);
  return names;
}

/// The pinned head asked around and found no cluster. Should it have heard of one that cannot take
/// it in (all its masters are dead), the new term is above that one's and its members join here;
/// unless that one has three masters or more: then only a majority can end it.
void membership::found_if_due() {
  if (founds_ && now_ >= found_at_ && votes_needed(newest_.masters.size()) == 1)
    commit(next_view(newest_.term + 1, {self_}));
}

/// Looks whether there should be another view, and makes it or an attempt at it.
void membership::pursue() {
  if (round_ && now_ - round_->since() >= options_.expiry / 2)
    end_round(duration::zero());
  if (round_ || !may_propose())
    return;
  std::erase_if(joining_, [this](const auto& entry) {
    return now_ - entry.second.asked_at > options_.expiry;
  });
  std::erase_if(vouched_, [this](const auto& entry) { return now_ >= entry.second; });
  auto members = wanted_members();
  if (members.empty() || (phase_ == phase::joined && members == view_.members))
    return;
  if (votes_needed(base().masters.size()) > 1)
    start_round(std::move(members));
  else
    commit(next_view(leads() ? view_.term : newest_.term + 1, std::move(members)));
}

/// Whether it is this node that should make the next view.
bool membership::may_propose() const {
  if (phase_ == phase::left)
    return closes_the_door();
  if (acts_as_successor())
    return stands_in() && now_ >= stand_in_at_;
  // Whoever issued the newer view is gone as well: carry on from the own view, above that one.
  bool time_is_up = now_ - rejoining_since_ > 2 * options_.expiry;
  return (phase_ == phase::joined || time_is_up) && first_living_master();
}

/// @return Whether this node is a master of its view and all masters before it are silent.
bool membership::first_living_master() const {
  for (const auto& name : view_.masters) {
    if (name == self_.name)
      return true;
    if (!liveness_.silent(view_.find_name(name)->inc, now_))
      return false;
  }
  return false;
}

/// The members of the base view without those that are silent, with those that asked to come in.
std::vector<member> membership::wanted_members() const {
  auto members = base().members;
  bool as_successor = acts_as_successor();
  if (as_successor)
    // This process hears nobody yet: only those go that others are known to have succeeded.
    std::erase_if(members, [this](const member& m) {
      return m.id == self_.id || (round_ && round_->succeeded(m.id));
    });
  else
    std::erase_if(members, [this](const member& m) {
      return m.inc == self_.inc ? phase_ == phase::left
                                : liveness_.silent(m.inc, now_) && vouched_.count(m.inc) == 0;
    });
  auto take_in = [&members](const member& who) {
    std::erase_if(members, [&who](const member& m) { return m.id == who.id; });
    auto at = std::lower_bound(members.begin(), members.end(), who.id,
                               [](const member& m, node_id id) { return m.id < id; });
    members.insert(at, who);
  };
  if (as_successor || (phase_ != phase::left && view_.find(self_.inc)->draining != self_.draining))
    take_in(self_);
  for (const auto& [id, applicant] : joining_)
    if (members.size() < limits::members_max && reason_to_refuse(applicant.who).empty())
      take_in(applicant.who);
  return members;
}

/// Why the joining node cannot be taken in; empty when it can.
std::string membership::reason_to_refuse(const member& who) const {
  if (!is_printable_name(who.name) || who.name.size() > limits::node_name_bytes_max ||
      !is_printable_name(who.host) || who.host.size() > host_bytes_max)
    return "name or host is empty, too long or not printable";
  const auto* known = base().find(who.id);
  if (known == nullptr)
    return view_.members.size() < limits::members_max ? "" : "the cluster is full";
  if (known->name != who.name)
    return "its node id is that of '" + known->name + "': choose another node name";
  if (known->inc == who.inc || liveness_.silent(known->inc, now_))
    return "";
  return "a node named '" + who.name + "' lives at " + known->host + ":" +
         std::to_string(known->control_port) + ": node names must be unique in the cluster";
}

/// To the first master that lives and is neither this node nor the joining one's former self. Once
/// only: two nodes that take each other for the leader must not play ball.
void membership::forward(const join_packet& p) {
  if (p.forwarded)
    return;
  for (const auto& name : newest_.masters) {
    const auto* master = newest_.find_name(name);
    bool watched = view_.find(master->inc) != nullptr;
    if (name == self_.name || master->id == p.who.id ||
        (watched && liveness_.silent(master->inc, now_)))
      continue;
    auto onward = p;
    onward.forwarded = true;
    send(control_endpoint(*master), std::move(onward));
    return;
  }
}

view membership::next_view(std::uint64_t term, std::vector<member> members) const {
  view next;
  next.term = term;
  next.version = std::max(view_.version, newest_.version) + 1;
  next.masters = choose_masters(members, head_, options_.max_masters);
  next.members = std::move(members);
  next.issuer = self_.inc;
  return next;
}

/// The next view is decided: tells everyone in it and lives in it.
void membership::commit(const view& next) {
  round_.reset();
  if (!next.newer_than(newest_))
    return;
  publish(next);
  // A test's network that delivers late: `view_` still is the one before.
  if (auto one_in = fault_setting(fault::old_views_one_in);
      one_in != 0 && next.version % one_in == 0)
    for (const auto& m : next.members)
      if (m.inc != self_.inc && view_.find(m.inc) != nullptr)
        send(control_endpoint(m), view_packet{view_});
  if (next.find(self_.inc) != nullptr)
    adopt(next);
  else
    consider(next);
}

/// To its members, and to masters that are in it no more: one that leaves waits for it.
void membership::publish(const view& latest) {
  for (const auto& m : latest.members)
    if (m.inc != self_.inc)
      send(control_endpoint(m), view_packet{latest});
  for (const auto& name : view_.masters)
    if (const auto* former = view_.find_name(name);
        former->inc != self_.inc && latest.find(former->id) == nullptr)
      send(control_endpoint(*former), view_packet{latest});
}

/// A process that starts where one of them was may know no seed but one that is gone: whoever leads
/// next looks for it there.
void membership::remember_former(const view& before) {
  auto is_back = [this](const member& m) { return view_.find(m.id) != nullptr; };
  std::erase_if(former_, is_back);
  std::remove_copy_if(before.members.begin(), before.members.end(), std::back_inserter(former_),
                      is_back);
  if (former_.size() > limits::former_members_max)
    former_.erase(former_.begin(), former_.end() - limits::former_members_max);
}

/// An address that a member had answers: somebody runs there, perhaps another process.
void membership::note_answer(const heartbeat_answer_packet& p) {
  if (auto at = answered_.find(p.from); at != answered_.end())
    at->second = now_;
  if (!p.fresh)
    return;
  for (const auto& m : view_.members)
    if (m.inc != p.inc && control_endpoint(m) == p.from) {
      liveness_.declare_dead(m.inc);
      change_is_due_ = true;
    }
}

} // namespace peercache::discovery
