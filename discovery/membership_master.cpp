// What a master does: found, take over, admit, expire, publish.

#include "common/assert.hpp"
#include "common/guards.hpp"
#include "common/limits.hpp"
#include "discovery/membership.hpp"
#include "discovery/view_codec.hpp"

#include <algorithm>

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
/// it in (all its masters are dead), the new term is above that one's and its members join here.
void membership::found_if_due() {
  if (founds_ && now_ >= found_at_)
    issue(newest_.term + 1, {self_});
}

void membership::take_over_if_due() {
  if (first_living_master())
    take_over();
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

/// Leads from now on, with everyone but the silent masters before this node.
void membership::take_over() {
  auto members = view_.members;
  for (const auto& name : view_.masters) {
    if (name == self_.name)
      break;
    std::erase_if(members, [&name](const member& m) { return m.name == name; });
  }
  issue(newest_.term + 1, std::move(members));
}

void membership::expire_silent_members() {
  auto members = view_.members;
  auto gone = std::erase_if(members, [this](const member& m) {
    return m.inc != self_.inc && liveness_.silent(m.inc, now_);
  });
  if (gone > 0)
    issue(view_.term, std::move(members));
}

/// Why the joining node cannot be taken in; empty when it can.
std::string membership::reason_to_refuse(const join_packet& p) const {
  const auto& who = p.who;
  if (!is_printable_name(who.name) || who.name.size() > limits::node_name_bytes_max ||
      !is_printable_name(who.host) || who.host.size() > host_bytes_max)
    return "name or host is empty, too long or not printable";
  const auto* known = view_.find(who.id);
  if (known == nullptr)
    return view_.members.size() < limits::members_max ? "" : "the cluster is full";
  if (known->name != who.name)
    return "its node id is that of '" + known->name + "': choose another node name";
  if (known->inc == who.inc || liveness_.silent(known->inc, now_))
    return "";
  return "a node named '" + who.name + "' lives at " + known->host + ":" +
         std::to_string(known->control_port) + ": node names must be unique in the cluster";
}

void membership::admit(const join_packet& p) {
  if (auto reason = reason_to_refuse(p); !reason.empty()) {
    send(control_endpoint(p.who), refused_packet{std::move(reason)});
    return;
  }
  auto members = view_.members;
  std::erase_if(members, [&p](const member& m) { return m.id == p.who.id; });
  auto at = std::lower_bound(members.begin(), members.end(), p.who.id,
                             [](const member& m, node_id id) { return m.id < id; });
  members.insert(at, p.who);
  issue(view_.term, std::move(members));
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

/// Makes the next view, adopts it and tells everyone in it.
void membership::issue(std::uint64_t term, std::vector<member> members) {
  view next;
  next.term = term;
  next.version = std::max(view_.version, newest_.version) + 1;
  next.masters = choose_masters(members, head_, options_.max_masters);
  next.members = std::move(members);
  next.issuer = self_.inc;
  PEERCACHE_ASSERT(next.newer_than(newest_));
  publish(next);
  // A test's network that delivers late: `view_` still is the one before.
  if (auto one_in = fault_setting(fault::old_views_one_in);
      one_in != 0 && next.version % one_in == 0)
    for (const auto& m : next.members)
      if (m.inc != self_.inc && view_.find(m.inc) != nullptr)
        send(control_endpoint(m), view_packet{view_});
  if (next.find(self_.inc) != nullptr)
    adopt(next);
}

void membership::publish(const view& latest) {
  for (const auto& m : latest.members)
    if (m.inc != self_.inc)
      send(control_endpoint(m), view_packet{latest});
}

/// @pre leads. A cluster that loses its last member ends without a view.
void membership::remove_member(const incarnation& inc) {
  auto members = view_.members;
  std::erase_if(members, [&inc](const member& m) { return m.inc == inc; });
  if (!members.empty())
    issue(view_.term, std::move(members));
}

} // namespace peercache::discovery
