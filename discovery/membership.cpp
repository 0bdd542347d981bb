#include "discovery/membership.hpp"

#include "common/assert.hpp"

#include <algorithm>
#include <utility>

namespace peercache::discovery {

namespace {

/// After this process stood still for this many heartbeats, it blames no member for silence in that
/// time.
constexpr int pause_heartbeats = 2;
/// A member whose connection broke is expelled after this many heartbeats without a sign of life:
/// one heartbeat may be missed, and one may be under way.
constexpr int lost_heartbeats = 2;
/// Beats of two hosts come by two clocks: the next answer, which may come with a beat, may be late
/// by a heartbeat divided by this.
constexpr int beat_slack = 8;
/// A restarted pinned head listens for at least this many heartbeats, before it founds a cluster,
/// for members that still send heartbeats to it.
constexpr int listen_heartbeats = 2;

bool names_as_master(const view& in, const incarnation& inc) {
  return std::any_of(in.masters.begin(), in.masters.end(),
                     [&](const std::string& name) { return in.find_name(name)->inc == inc; });
}

} // namespace

membership::membership(membership_options options, member self, time_point now)
    : options_(std::move(options)), self_(std::move(self)),
      liveness_(options_.expiry, lost_heartbeats * options_.heartbeat), now_(now), next_beat_(now),
      began_(now), rejoining_since_(now), cluster_heard_at_(now) {
  PEERCACHE_ASSERT(self_.id == node_id_of(self_.name) && self_.inc != incarnation{});
  PEERCACHE_ASSERT(options_.heartbeat > duration::zero() && options_.expiry > options_.heartbeat);
  PEERCACHE_ASSERT(options_.max_masters > 0);
  auto own = control_endpoint(self_);
  head_ = options_.seeds.empty() ? own : options_.seeds.front();
  founds_ = head_ == own;
  bool asks_others = std::any_of(options_.seeds.begin(), options_.seeds.end(),
                                 [&own](const endpoint& seed) { return seed != own; });
  listened_at_ = now;
  if (!options_.seeds.empty())
    listened_at_ += listen_heartbeats * options_.heartbeat;
  found_at_ = asks_others ? now + options_.expiry + options_.patience : listened_at_;
}

std::vector<action> membership::tick(time_point now) {
  notice_own_pause(now);
  if (phase_ == phase::left)
    return tick_after_leaving();
  if (phase_ == phase::looking) {
    found_if_due();
    complain_if_unanswered();
  }
  pursue();
  ask_again_if_due();
  survey_if_cut_off();
  if (beat_is_due()) {
    if (phase_ != phase::joined)
      send_joins();
    if (phase_ == phase::joined || phase_ == phase::rejoining)
      send_heartbeats();
    if (phase_ == phase::joined)
      ask_for_own_state();
  }
  return take_actions();
}

std::vector<action> membership::on_packet(const packet& received, time_point now) {
  notice_own_pause(now);
  if (phase_ == phase::left && !hears_after_leaving(received))
    return {};
  only_heard_ = only_says_of_life(received);
  std::visit([this](const auto& p) { handle(p); }, received);
  if (std::exchange(change_is_due_, false))
    pursue();
  return take_actions();
}

std::vector<action> membership::on_peer_lost(const incarnation& inc, time_point now) {
  notice_own_pause(now);
  liveness_.lost(inc, now_);
  return take_actions();
}

std::vector<action> membership::set_draining(bool draining, time_point now) {
  if (phase_ == phase::left)
    return {};
  notice_own_pause(now);
  self_.draining = draining;
  if (phase_ == phase::joined)
    ask_for_own_state();
  return take_actions();
}

bool membership::leads() const noexcept {
  return phase_ == phase::joined && view_.masters.front() == self_.name;
}

bool membership::is_master() const noexcept {
  return phase_ == phase::joined && view_.is_master(self_.name);
}

bool membership::isolated(time_point now) const {
  if (phase_ != phase::joined)
    return true;
  return std::all_of(view_.masters.begin(), view_.masters.end(), [&](const std::string& name) {
    return name != self_.name && liveness_.silent(view_.find_name(name)->inc, now);
  });
}

bool membership::frozen(time_point now) const {
  auto needed = votes_needed(view_.masters.size());
  if (phase_ != phase::joined || needed == 1)
    return false;
  auto answering = std::count_if(view_.masters.begin(), view_.masters.end(), [&](const auto& name) {
    auto at = answered_.find(control_endpoint(*view_.find_name(name)));
    return name == self_.name || (at != answered_.end() && now - at->second.at <= options_.expiry);
  });
  return static_cast<std::size_t>(answering) < needed;
}

void membership::handle(const heartbeat_packet& p) {
  // A process that leaves sent this heartbeat before it said so: the heartbeat is ignored, since it
  // does not mean that the sender stays.
  if (p.inc == self_.inc || leavers_.count(p.inc) > 0)
    return;
  hear_of(p.known);
  note_sign_of_life(p.inc);
  // A heartbeat that names a newer view than this node's is not a sign of life: a node that hears
  // of newer views and never gets them is not in touch with the senders.
  const bool ahead = p.known > newest_.stamp();
  if (ahead && p.known <= outbid_ && liveness_.follows(p.inc))
    elsewhere_.insert(p.inc);
  // Masters judge each other by answers, since a master that can send but hears nobody is of no
  // use.
  const bool among_masters = is_master() && names_as_master(view_, p.inc);
  if (!ahead && !among_masters)
    liveness_.heard(p.inc, now_);
  // What the sender heard may have been sent before the connection broke.
  if (!ahead && p.heard == self_.inc && liveness_.why_silent(p.inc) == departure::silent)
    note_heard_by(p.inc, p.from);
  const bool of_same_view = among_masters && p.known == newest_.stamp();
  if (of_same_view)
    greeted_[p.inc] = now_;
  if (p.urgent || !of_same_view)
    reply_to(p);
  // A master that lives again after an outage need not wait for this node's next heartbeat.
  if (const auto* sender = view_.find(p.inc); of_same_view && !answers_in_time(*sender))
    greet(*sender);
}

void membership::reply_to(const heartbeat_packet& p) {
  auto said = answer_to_heartbeat();
  if (last_change_ && last_change_->base == p.known)
    said.change = last_change_;
  else if (newest_.stamp() > p.known)
    said.newer = newest_;
  send(p.from, std::move(said));
}

void membership::handle(const heartbeat_answer_packet& p) {
  if (p.inc == self_.inc)
    return;
  note_answer(p);
  note_sign_of_life(p.inc);
  const auto made = p.change ? made_by(*p.change) : std::nullopt;
  if (const auto& newer = p.change ? made : p.newer) {
    consider(*newer);
    if (p.known > newest_.stamp()) {
      // The sender's view came with the answer, and its stamp is still newer than this node's
      // newest view: this node has just ignored it as a fragment. So the sender lives in the
      // fragment, and does not vote in this node's view. Without that vote this node may have to
      // take the fragment, so it considers the view again.
      if (liveness_.follows(p.inc))
        elsewhere_.insert(p.inc);
      consider(*newer);
    }
  } else if (newest_.stamp() > p.known)
    send(p.from, newest_for(p.known));
  else if (p.change)
    ask_for_view(p.from, p.known);
}

/// Notes that the process `who`, at this address, has heard this node: it lives, and the address,
/// if it is a master's, answers.
void membership::note_heard_by(const incarnation& who, const endpoint& from) {
  liveness_.heard(who, now_, options_.heartbeat / beat_slack);
  if (auto at = answered_.find(from); at != answered_.end())
    at->second = {now_, who};
}

heartbeat_answer_packet membership::answer_to_heartbeat() const {
  return {control_endpoint(self_),
          self_.inc,
          newest_.stamp(),
          phase_ == phase::looking,
          in_touch(now_),
          {},
          {}};
}

/// Takes the time of an event. A late call means that this process stood still, since its own clock
/// sends the ticks; then no member is blamed for the time that this process missed.
void membership::notice_own_pause(time_point now) {
  PEERCACHE_ASSERT(now >= now_);
  only_heard_ = false;
  auto gap = now - now_;
  now_ = now;
  if (gap <= pause_heartbeats * options_.heartbeat)
    return;
  liveness_.forgive(gap, now_);
  for (auto& [at, said] : answered_)
    said.at = std::min(said.at + gap, now_);
  cluster_heard_at_ = std::min(cluster_heard_at_ + gap, now_);
  survey_.reset();
}

/// Whether term and version of `stamp` are not too far above those that this node knows. Both grow
/// by little at each change, and a number near the maximum would leave none for later changes.
bool membership::is_credible(const view_stamp& stamp) {
  const bool term = terms_.admits(stamp.term, std::max(newest_.term, term_seen_));
  return versions_.admits(stamp.version, newest_.version) && term;
}

bool membership::is_credible(const ballot& attempt) {
  return terms_.admits(attempt.term, std::max(newest_.term, term_seen_));
}

/// Asks the leader for a view with this node's draining state, where the present view says
/// otherwise. @pre joined
void membership::ask_for_own_state() {
  PEERCACHE_ASSERT(phase_ == phase::joined);
  if (view_.find(self_.inc)->draining == self_.draining)
    return;
  if (leads())
    pursue();
  else
    send_joins();
}

void membership::send_heartbeats() {
  // A node that has joined always has a view with itself in it.
  PEERCACHE_ASSERT(!view_.members.empty());
  const heartbeat_packet p{control_endpoint(self_), self_.inc, newest_.stamp(), true, {}};
  for (const auto& name : view_.masters)
    if (name != self_.name)
      greet(*view_.find_name(name));
  const bool alone = isolated(now_);
  if (leads() || alone)
    greet_seeds(p);
  // No master answers, perhaps because all were replaced and this node has not heard of it: this
  // node asks the other members, one with each heartbeat.
  if (alone) {
    const auto& other = view_.members[probe_next_++ % view_.members.size()];
    if (other.inc != self_.inc && !view_.is_master(other.name))
      send(control_endpoint(other), p);
  } else if (is_master() && !former_.empty()) {
    // All masters look for former members, not only the leader: a master that restarted does not
    // remember the former members.
    send(control_endpoint(former_[probe_next_++ % former_.size()]), p);
  }
  if (is_master())
    for (const auto& m : view_.former_masters)
      if (view_.find(m.id) == nullptr)
        send(control_endpoint(m), p);
  if (survey_)
    for (auto& target : survey_->to_ask(now_))
      send(std::move(target), p);
}

/// Sends a heartbeat to this other master, as the answer to its own ones if they come in time.
void membership::greet(const member& master) {
  heartbeat_packet p{control_endpoint(self_), self_.inc, newest_.stamp(), true, {}};
  p.urgent = survey_.has_value() || !answers_in_time(master);
  if (const auto at = greeted_.find(master.inc); at != greeted_.end() && in_time(at->second))
    p.heard = master.inc;
  send(control_endpoint(master), std::move(p));
}

/// Whether this node, a master, can wait for this other master's next heartbeat to be answered:
/// the last answer came in time, and the connection has not broken since.
bool membership::answers_in_time(const member& master) const {
  const auto at = answered_.find(control_endpoint(master));
  return is_master() && at != answered_.end() && at->second.by == master.inc &&
         in_time(at->second.at) && liveness_.why_silent(master.inc) == departure::silent;
}

/// Whether what comes with each heartbeat of another node is in time if it last came at `last`.
bool membership::in_time(time_point last) const {
  return now_ - last <= options_.heartbeat + options_.heartbeat / 4;
}

/// Sends the heartbeat to seeds that are not members: such a seed may lead another half of the
/// cluster, or be a head that came back.
void membership::greet_seeds(const heartbeat_packet& p) {
  for (const auto& seed : options_.seeds) {
    bool inside = std::any_of(view_.members.begin(), view_.members.end(),
                              [&seed](const auto& m) { return control_endpoint(m) == seed; });
    if (!inside)
      send(seed, p);
  }
}

void membership::send(endpoint to, packet body) {
  add<send_packet>() = {std::move(to), std::move(body)};
}

std::vector<action> membership::take_actions() {
  return std::exchange(actions_, {});
}

std::string_view to_string(membership::phase value) noexcept {
  switch (value) {
  case membership::phase::looking:
    return "looking";
  case membership::phase::joined:
    return "joined";
  case membership::phase::rejoining:
    return "rejoining";
  case membership::phase::left:
    return "left";
  }
  return "?";
}

} // namespace peercache::discovery
