// Joining in the membership protocol: a node asks and is taken in or refused; the pinned head (the
// first seed) founds a cluster when it finds none.

#include "common/limits.hpp"
#include "discovery/membership.hpp"
#include "discovery/view_codec.hpp"

#include <algorithm>
#include <utility>

namespace peercache::discovery {

/// Addresses of all nodes that might lead the cluster or know the leader: masters of the newest
/// view and of this node's view, and the seeds.
std::vector<endpoint> membership::who_may_lead() const {
  std::vector<endpoint> all = options_.seeds;
  for (const auto* source : {&newest_, &view_})
    for (const auto& name : source->masters)
      all.push_back(control_endpoint(*source->find_name(name)));
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  std::erase(all, control_endpoint(self_));
  return all;
}

void membership::send_joins() {
  const join_packet p{self_, newest_.stamp(), view_.term > 0, false};
  for (auto& target : who_may_lead())
    send(std::move(target), p);
}

void membership::handle(const join_packet& p) {
  if (p.who.inc == self_.inc || leavers_.count(p.who.inc) > 0)
    return;
  hear_of(p.known);
  if (p.known > newest_.stamp()) {
    // The joining node knows a newer view than this node: an answer with this node's older stamp
    // makes the joining node send that view.
    send(control_endpoint(p.who), answer_to_heartbeat());
    return;
  }
  const auto* known = newest_.find(p.who.id);
  if (known != nullptr && *known == p.who) {
    send(control_endpoint(p.who), newest_for(p.known));
    return;
  }
  if (p.was_member && newest_.find(p.who.inc) == nullptr && p.known != newest_.stamp()) {
    // A former member may not know yet that it was expelled. It gets the newest view instead of
    // being taken in, because it must empty its shard before it joins.
    send(control_endpoint(p.who), view_packet{newest_});
    return;
  }
  const applicant asks{p.who, p.was_member, now_};
  if (known != nullptr && replaces(asks, *known))
    liveness_.declare_dead(known->inc);
  if (phase_ != phase::joined) {
    // A process that has not joined may have to make the next view itself; it then takes in the
    // nodes that asked meanwhile.
    note_applicant(asks);
  }
  if (!may_propose()) {
    forward(p);
    return;
  }
  auto refused = reason_to_refuse(p.who);
  if (!refused && !note_applicant(asks))
    refused = {refusal::full, "as many nodes ask to come in as a cluster may have members"};
  if (!refused && frozen(now_))
    refused = {refusal::no_majority,
               "too few masters answer for a change: until they do, or those who are left have "
               "made a view without them"};
  if (!refused)
    return;
  if (refused->why != refusal::no_majority)
    add<join_turned_away>() = {p.who, refused->reason};
  send(control_endpoint(p.who), std::move(*refused));
}

/// Remembers the applicant, which may be taken in until an expiry after it has asked. Returns false
/// when it is not remembered, because as many others are as a cluster may have members. Applicants
/// with the names of members have room besides: strangers must not keep out who comes back.
bool membership::note_applicant(const applicant& asks) {
  const auto& id = asks.who.id;
  const bool has_room = joining_.size() < limits::members_max || joining_.contains(id) ||
                        newest_.find(id) != nullptr || view_.find(id) != nullptr;
  if (has_room) {
    joining_.insert_or_assign(id, asks);
    change_is_due_ = true;
  }
  return has_room;
}

/// Whether the applicant runs in place of the member `known`. An applicant at the member's own
/// address is believed, since two processes cannot have one address. An applicant at another port
/// of the member's host is believed when the member is silent and the applicant was never in a
/// view: otherwise it may be another node of the same name, or the process that the member
/// replaced.
bool membership::replaces(const applicant& asks, const member& known) const {
  return asks.who.id == known.id && asks.who.inc != known.inc && asks.who.host == known.host &&
         (asks.who.control_port == known.control_port ||
          (!asks.was_member && liveness_.silent(known.inc, now_)));
}

/// Declares the members of this node's view dead whose places are taken by applicants that asked
/// before this process knew the view.
void membership::declare_replaced_dead() {
  for (const auto& [id, asks] : joining_)
    if (const auto* known = view_.find(id); known != nullptr && replaces(asks, *known))
      liveness_.declare_dead(known->inc);
}

/// Whether the newest view has one or two masters and all of them were replaced: nobody will then
/// make a next view. Also true when this process knows no view.
bool membership::newest_is_orphaned() const {
  if (votes_needed(newest_.masters.size()) > 1)
    return false;
  return std::all_of(newest_.masters.begin(), newest_.masters.end(), [this](const auto& name) {
    const auto& master = *newest_.find_name(name);
    const auto asks = joining_.find(master.id);
    return replaces({self_, view_.term > 0, now_}, master) ||
           (asks != joining_.end() && replaces(asks->second, master));
  });
}

/// Returns `members` together with the applicants that may be taken in.
std::vector<member> membership::with_applicants(std::vector<member> members) const {
  // `joining_` may hold applicants with the same incarnation: only one of them is taken in.
  const auto is_another = [&members](const member& who) {
    return std::any_of(members.begin(), members.end(),
                       [&who](const member& m) { return m.inc == who.inc && m.id != who.id; });
  };
  for (const auto& [id, asks] : joining_)
    if (id != self_.id && members.size() < limits::members_max && !is_another(asks.who) &&
        !reason_to_refuse(asks.who))
      take_in(members, asks.who);
  return members;
}

void membership::take_in(std::vector<member>& members, const member& who) {
  std::erase_if(members, [&who](const member& m) { return m.id == who.id; });
  const auto at = std::lower_bound(members.begin(), members.end(), who.id,
                                   [](const member& m, node_id id) { return m.id < id; });
  members.insert(at, who);
}

void membership::handle(const refused_packet& p) {
  was_answered_ = true;
  if (phase_ == phase::joined)
    return;
  cluster_heard_at_ = now_;
  // Somebody leads the cluster that refuses this node, so this node does not yet take over or found
  // a cluster.
  rejoining_since_ = now_;
  found_at_ = std::max(found_at_, now_ + options_.expiry);
  stand_in_at_ = now_ + options_.expiry / 2;
  if (p.reason == refused_reason_)
    return;
  refused_reason_ = p.reason;
  add<join_refused>() = {p.why, p.reason};
}

/// Why `who` cannot be taken in; nothing when it can.
std::optional<refused_packet> membership::reason_to_refuse(const member& who) const {
  if (!is_printable_name(who.name) || who.name.size() > limits::node_name_bytes_max ||
      !is_printable_name(who.host) || who.host.size() > host_bytes_max)
    return refused_packet{refusal::malformed, "name or host is empty, too long or not printable"};
  if (const auto* other = base().find(who.inc); other != nullptr && other->id != who.id)
    return refused_packet{refusal::malformed, "its process is that of '" + other->name + "'"};
  const auto* known = base().find(who.id);
  if (known == nullptr && view_.members.size() >= limits::members_max)
    return refused_packet{refusal::full, "the cluster is full"};
  if (known == nullptr)
    return std::nullopt;
  if (known->name != who.name)
    return refused_packet{refusal::name_taken,
                          "its node id is that of '" + known->name + "': choose another node name"};
  // A node that looks for a cluster hears no members, so it cannot tell that a member on another
  // host is gone. A node gets no heartbeats from itself either, so the member that it is itself
  // always counts as living.
  const bool may_live =
      known->inc == self_.inc || (phase_ == phase::looking && known->host != who.host);
  if (known->inc == who.inc || (liveness_.silent(known->inc, now_) && !may_live))
    return std::nullopt;
  return refused_packet{refusal::name_taken, "a node named '" + who.name + "' lives at " +
                                                 known->host + ":" +
                                                 std::to_string(known->control_port) +
                                                 ": node names must be unique in the cluster"};
}

/// Passes the join on to the first living master that is neither this node nor the joining node's
/// former self; a master that has the joining node's name but lives elsewhere is asked as well. A
/// join is forwarded only once: two nodes that take each other for the leader would otherwise send
/// it to and fro.
void membership::forward(const join_packet& p) {
  if (p.forwarded || phase_ == phase::looking)
    return;
  for (const auto& name : newest_.masters) {
    const auto* master = newest_.find_name(name);
    const bool watched = view_.find(master->inc) != nullptr;
    if (name == self_.name || replaces({p.who, p.was_member, now_}, *master) ||
        (watched && liveness_.silent(master->inc, now_)))
      continue;
    auto onward = p;
    onward.forwarded = true;
    send(control_endpoint(*master), std::move(onward));
    return;
  }
  // A joining process that was a member, or has a master's name, may have to make the next view
  // itself: it gets no refusal, which would make it wait.
  if (!p.was_member && !newest_.is_master(p.who.name))
    send(control_endpoint(p.who),
         refused_packet{refusal::no_majority,
                        "no master of its view answers " + self_.name +
                            ": until one does, or those who are left have made a view without "
                            "them"});
}

/// Notes that another node knows a newer view, which it is about to send.
void membership::hear_of(const view_stamp& known) {
  if (phase_ != phase::looking || known <= newest_.stamp())
    return;
  heard_of_ = std::max(heard_of_, known);
  told_by_ = now_ + 2 * options_.heartbeat;
}

/// Founds a cluster, if this node is the pinned head and the seeds that it asked told of none. If
/// the head has heard of a cluster that cannot take it in because all masters are dead, the new
/// view's term is above that cluster's, so its members join here. A cluster of three masters or
/// more can only be ended by a majority of them: of such a cluster the head makes a fragment once
/// it no longer hears anybody of the cluster.
void membership::found_if_due() {
  if (!founds_)
    return;
  if (votes_needed(newest_.masters.size()) > 1) {
    if (now_ - cluster_heard_at_ > (1 + survey::waits) * options_.expiry)
      commit(fragment_of(with_applicants({self_})));
    return;
  }
  const bool is_to_be_told = heard_of_ > newest_.stamp() && now_ < told_by_;
  if (is_to_be_told && now_ < began_ + options_.expiry)
    return;
  const bool nobody_to_ask = all_seeds_ask() && newest_is_orphaned();
  if (now_ >= found_at_ || (now_ >= listened_at_ && nobody_to_ask))
    commit(next_view(newest_.term + 1, with_applicants({self_})));
}

/// The pinned head founds no cluster before the seed at its new address has had time to answer.
void membership::correct_seed(const endpoint& from, const endpoint& to, bool all_known,
                              time_point now) {
  std::replace(options_.seeds.begin(), options_.seeds.end(), from, to);
  if (head_ == from)
    head_ = to;
  founds_ = head_ == control_endpoint(self_);
  listened_at_ = std::max(listened_at_, now + options_.expiry);
  found_at_ = all_known ? listened_at_ : std::max(found_at_, listened_at_);
}

/// Tells the operator, after two expiries without any answer, whom this node asks to take it in:
/// otherwise a node whose seeds are dead or unreachable seems to do nothing.
void membership::complain_if_unanswered() {
  if (complained_ || was_answered_ || now_ - began_ < 2 * options_.expiry)
    return;
  complained_ = true;
  std::string asked;
  for (const auto& target : who_may_lead())
    asked += (asked.empty() ? "" : ", ") + target.host + ":" + std::to_string(target.port);
  if (!asked.empty())
    actions_.emplace_back(join_unanswered{"nobody answers who was asked to take this node in (" +
                                          asked + "); it goes on asking"});
}

/// Notes that `who` sent a heartbeat, or answered a heartbeat of this process.
void membership::note_sign_of_life(const incarnation& who) {
  was_answered_ = true;
  if (newest_.find(who) != nullptr)
    cluster_heard_at_ = now_;
}

/// Whether all other seeds have asked this node to take them in, and so did not lead a cluster
/// then.
bool membership::all_seeds_ask() const {
  return std::all_of(options_.seeds.begin(), options_.seeds.end(), [this](const endpoint& seed) {
    return seed == control_endpoint(self_) ||
           std::any_of(joining_.begin(), joining_.end(), [&seed](const auto& entry) {
             return control_endpoint(entry.second.who) == seed;
           });
  });
}

} // namespace peercache::discovery
