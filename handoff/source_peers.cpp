#include "handoff/source_peers.hpp"

#include "common/assert.hpp"

#include <algorithm>

namespace peercache::handoff {
namespace {

bool is_among(peer_id peer, const std::vector<peer_id>& sources) {
  return std::find(sources.begin(), sources.end(), peer) != sources.end();
}

result<transfer_plan> plan_for(const kv_layout& source, const kv_layout& own) {
  if (auto same = compare(source, own); !same)
    return same.error();
  return transfer_plan::create(source, own);
}

} // namespace

void source_peers::joined(peer_id peer, const hello& who) {
  peers_[peer].who = who;
}

bool source_peers::described(peer_id peer, const kv_layout& layout) {
  const auto found = peers_.find(peer);
  if (found == peers_.end() || !found->second.who || found->second.plan ||
      !found->second.fault.empty())
    return false;
  auto& at = found->second;
  if (auto plan = plan_for(layout, own_)) {
    at.plan = std::make_shared<const transfer_plan>(std::move(*plan));
    at.place = {layout.ranks, layout.all_cp_ranks_send};
    for (const auto& [room, sources] : waiting_)
      if (is_among(peer, sources))
        changed_.push_back(room);
  } else {
    at.fault = plan.error().message;
    fail_waiting(peer, {at.fault, failure_kind::misfit});
  }
  return true;
}

void source_peers::lost(peer_id peer, const std::string& reason) {
  peers_.erase(peer);
  fail_waiting(peer, {reason, failure_kind::peer_lost});
}

void source_peers::fail_waiting(peer_id peer, const room_failure& why) {
  for (auto at = waiting_.begin(); at != waiting_.end();)
    if (is_among(peer, at->second)) {
      failed_.emplace_back(at->first, why);
      at = waiting_.erase(at);
    } else {
      ++at;
    }
}

void source_peers::wait(room_id room, std::vector<peer_id> sources) {
  for (const auto peer : sources) {
    const auto& at = peers_.at(peer);
    if (at.fault.empty())
      continue;
    failed_.emplace_back(room, room_failure{at.fault, failure_kind::misfit});
    return;
  }
  waiting_[room] = std::move(sources);
  changed_.push_back(room);
}

bool source_peers::is_ready(const std::vector<peer_id>& sources) const {
  return std::all_of(sources.begin(), sources.end(),
                     [this](peer_id peer) { return peers_.at(peer).plan != nullptr; });
}

result<void> source_peers::check(const std::vector<peer_id>& sources) const {
  std::vector<source_place> places;
  places.reserve(sources.size());
  for (const auto peer : sources)
    places.push_back(peers_.at(peer).place);
  return check_sources(places, own_.ranks);
}

std::vector<std::pair<room_id, std::vector<receiver_rooms::source>>> source_peers::take_ready() {
  std::vector<std::pair<room_id, std::vector<receiver_rooms::source>>> ready;
  for (const auto room : std::exchange(changed_, {})) {
    const auto at = waiting_.find(room);
    if (at == waiting_.end() || !is_ready(at->second))
      continue;
    const auto named = std::move(at->second);
    waiting_.erase(at);
    if (auto all = check(named); !all) {
      failed_.emplace_back(room, room_failure{all.error().message, failure_kind::misfit});
      continue;
    }
    std::vector<receiver_rooms::source> sources;
    for (const auto peer : named)
      sources.push_back({peer, peers_.at(peer).plan});
    ready.emplace_back(room, std::move(sources));
  }
  return ready;
}

const hello* source_peers::who(peer_id peer) const noexcept {
  const auto found = peers_.find(peer);
  return found == peers_.end() || !found->second.who ? nullptr : &*found->second.who;
}

} // namespace peercache::handoff
