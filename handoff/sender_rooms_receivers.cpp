// Methods of `sender_rooms` for messages of receivers, and for joins and aborts of rooms that are
// not open.

#include "common/assert.hpp"
#include "handoff/sender_rooms.hpp"

#include <algorithm>

namespace peercache::handoff {

void sender_rooms::connected(peer_id peer, const incarnation& process) {
  const bool fresh = processes_.emplace(peer, process).second;
  PEERCACHE_ASSERT(fresh);
}

void sender_rooms::joined(peer_id peer, const join& said) {
  if (is_late(peer, said))
    return refuse(peer, said, "this receiver has given the room up, or joined it again");
  if (auto* at = newest(said.room); at != nullptr)
    return join_room(*at, peer, said);
  if (const auto failed = failed_.find(said.room); failed != failed_.end())
    return join_failed(failed->second.known, failed->second.was_heard, peer, said);
  hold(peer, said);
}

/// Whether this join is over already: its process has aborted it, or has sent a join of the same or
/// a newer turn that is held.
bool sender_rooms::is_late(peer_id peer, const join& said) const {
  const auto& process = processes_.at(peer);
  if (early_aborts_.contains({process, said.id}))
    return true;
  const auto waiting = held_.find(said.room);
  if (waiting == held_.end())
    return false;
  const auto held = waiting->second.find(process);
  return held != waiting->second.end() && held->second.said.id >= said.id;
}

void sender_rooms::join_room(room& at, peer_id peer, const join& said) {
  const auto earlier = at.receivers.find(processes_.at(peer));
  if (earlier != at.receivers.end())
    join_again(at, earlier->second, peer, said);
  else if (!at.has_ended())
    admit(at, peer, said);
  else if (at.state == room_state::failed)
    join_failed(at.known, at.failure.was_heard(), peer, said);
  else
    hold(peer, said);
}

/// Handles a second join of a receiver that has a part in the room already.
void sender_rooms::join_again(room& at, const receiver& earlier, peer_id peer, const join& said) {
  if (said.id <= earlier.said.id)
    return refuse(peer, said, "this receiver has joined the room already");
  if (!at.has_ended() && !earlier.done)
    fail(at, failure_kind::protocol, "decode has begun the room again before it was done");
  hold(peer, said);
}

/// Answers a join of a room that has failed with an abort, or holds the join if it begins a newer
/// turn.
void sender_rooms::join_failed(participants& known, bool was_heard, peer_id peer,
                               const join& said) {
  const auto process = processes_.at(peer);
  const auto before = known.find(process);
  if (before != known.end() && before->second < said.id)
    return hold(peer, said);
  if (known.size() < limits::ranks_max)
    known.emplace(process, said.id);
  refuse(peer, said, "the room has failed at prefill", was_heard);
}

void sender_rooms::admit(room& at, peer_id peer, const join& said) {
  if (at.all_have_joined()) {
    refuse(peer, said, "another receiver has its place in the room");
    return fail(at, failure_kind::misfit, "more receivers join the room than are expected");
  }
  if (!at.receivers.empty() &&
      at.receivers.begin()->second.said.prefix_pages != said.prefix_pages) {
    refuse(peer, said, "the receivers of the room have different prefixes");
    return fail(at, failure_kind::misfit, "its receivers have different prefixes");
  }
  if (!at.receivers.empty() && at.receivers.begin()->second.said.receivers != said.receivers) {
    refuse(peer, said, "the receivers of the room do not say the same number of receivers");
    return fail(at, failure_kind::misfit, "its receivers do not agree how many they are");
  }
  if (at.required == 0)
    at.required = said.receivers;
  const auto& process = processes_.at(peer);
  at.receivers[process] = {peer, said};
  at.known[process] = said.id;
  advance(at);
}

void sender_rooms::finished(peer_id peer, const done& said) {
  const auto& process = processes_.at(peer);
  auto* at = newest(said.room);
  if (auto* held = find_held(process, said.room, said.id); held != nullptr) {
    held->done = held->said.dummy;
    // This room may have failed because a join of an earlier turn came late and took the place of
    // the held join.
    if (at != nullptr ? at->state == room_state::failed : failed_.contains(said.room))
      forget_held(said.room, process);
    return;
  }
  if (at == nullptr || at->has_ended())
    return;
  const auto found = at->receivers.find(process);
  if (found == at->receivers.end() || found->second.said.id != said.id || found->second.done)
    return;
  if (!at->last_sent && !found->second.said.dummy)
    return fail(*at, failure_kind::protocol,
                "a receiver is done before the last pages were offered");
  found->second.done = true;
  at->metric.bytes += said.bytes;
  at->metric.microseconds = std::max(at->metric.microseconds, said.microseconds);
  advance(*at);
}

void sender_rooms::aborted(peer_id peer, const handoff::abort& said) {
  const auto process = processes_.at(peer);
  if (find_held(process, said.room, said.id) != nullptr)
    return give_up(said.room, process, {"decode has aborted: " + said.reason, kind_of(said)});
  auto* at = newest(said.room);
  const auto failed = failed_.find(said.room);
  const auto* known = at != nullptr             ? &at->known
                      : failed != failed_.end() ? &failed->second.known
                                                : nullptr;
  const auto id = known == nullptr ? participants::const_iterator{} : known->find(process);
  if (known == nullptr || id == known->end() || id->second < said.id)
    return remember_abort(process, said.id);
  if (at != nullptr && !at->has_ended() && id->second == said.id)
    fail(*at, kind_of(said), "decode has aborted: " + said.reason);
}

void sender_rooms::lost(peer_id peer) {
  for (auto next = held_.begin(); next != held_.end();) {
    const auto& [number, joins] = *next++;
    const auto of_peer = std::find_if(
        joins.begin(), joins.end(), [peer](const auto& each) { return each.second.peer == peer; });
    if (of_peer != joins.end())
      give_up(room_id(number), incarnation(of_peer->first),
              {"the connection to decode has ended", failure_kind::peer_lost});
  }
  for (auto& [id, at] : rooms_)
    if (!at.has_ended() &&
        std::any_of(at.receivers.begin(), at.receivers.end(),
                    [peer](const auto& each) { return each.second.peer == peer; }))
      fail(at, failure_kind::peer_lost, "the connection to decode has ended");
  processes_.erase(peer);
}

// -- early joins, and turns that have failed

void sender_rooms::refuse(peer_id peer, const join& said, std::string reason, bool heard) {
  outgoing_.push_back({peer, handoff::abort{said.room, said.id, std::move(reason), heard}});
}

void sender_rooms::hold(peer_id peer, const join& said) {
  const auto process = processes_.at(peer);
  forget_held(said.room, process); // A newer turn of the same receiver replaces the older join.
  const auto count = held_of_.find(process);
  const auto of_process = count == held_of_.end() ? 0 : count->second;
  if (of_process >= options_.held_joins_max || held_joins_ >= options_.held_joins_total_max)
    return refuse(peer, said, "too many rooms wait for prefill");
  if (const auto ended = given_up_.find(said.room); ended != given_up_.end()) {
    const auto before = ended->second.receivers.find(process);
    if (before != ended->second.receivers.end() && before->second < said.id)
      forget_given_up(said.room); // The receivers begin another turn.
  }
  ++held_of_[process];
  ++held_joins_;
  held_[said.room].emplace(process, held_join{peer, said});
}

sender_rooms::held_join* sender_rooms::find_held(const incarnation& process, room_id number,
                                                 join_id id) noexcept {
  const auto waiting = held_.find(number);
  if (waiting == held_.end())
    return nullptr;
  const auto held = waiting->second.find(process);
  return held == waiting->second.end() || held->second.said.id != id ? nullptr : &held->second;
}

void sender_rooms::forget_held(room_id number, const incarnation& process) noexcept {
  const auto found = held_.find(number);
  if (found == held_.end() || found->second.erase(process) == 0)
    return;
  if (found->second.empty())
    held_.erase(found);
  --held_joins_;
  if (const auto count = held_of_.find(process); --count->second == 0)
    held_of_.erase(count);
}

/// Forgets a held join whose receiver has ended its turn, and lets the next room of the number
/// fail.
void sender_rooms::give_up(room_id number, const incarnation& process, room_failure why) {
  const auto id = held_.at(number).at(process).said.id;
  forget_held(number, process);
  const auto [at, fresh] = given_up_.try_emplace(number);
  if (fresh) {
    at->second.why = std::move(why);
    given_up_order_.push_back(number);
  }
  if (at->second.receivers.size() < limits::ranks_max)
    at->second.receivers[process] = id;
  if (given_up_.size() > options_.given_up_kept)
    forget_given_up(given_up_order_.front());
}

void sender_rooms::forget_given_up(room_id number) {
  if (given_up_.erase(number) != 0)
    std::erase(given_up_order_, number);
}

void sender_rooms::remember_failed(const room& at) {
  failed_[at.number] = {at.known, at.failure.was_heard()};
  failed_order_.push_back(at.number);
  if (failed_order_.size() > options_.failed_rooms_kept) {
    failed_.erase(failed_order_.front());
    failed_order_.pop_front();
  }
}

void sender_rooms::remember_abort(const incarnation& process, join_id id) {
  if (!early_aborts_.emplace(process, id).second)
    return;
  early_aborts_order_.emplace_back(process, id);
  if (early_aborts_order_.size() > options_.early_aborts_kept) {
    early_aborts_.erase(early_aborts_order_.front());
    early_aborts_order_.pop_front();
  }
}

} // namespace peercache::handoff
