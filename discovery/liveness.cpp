#include "discovery/liveness.hpp"

#include "common/assert.hpp"

#include <algorithm>

namespace peercache::discovery {

void liveness::watch(std::span<const member> members, time_point now) {
  std::unordered_map<incarnation, record> kept;
  for (const auto& m : members) {
    auto old = records_.find(m.inc);
    kept.emplace(m.inc, old != records_.end() ? old->second : record{now, {}, {}, false, false});
  }
  records_ = std::move(kept);
}

void liveness::heard(const incarnation& inc, time_point now, duration patience) {
  if (auto at = records_.find(inc); at != records_.end()) {
    PEERCACHE_ASSERT(now >= at->second.heard_at);
    const auto left = at->second.heard_at + at->second.patience - now;
    at->second = {now, std::max(patience, left), {}, false, false};
  }
}

void liveness::lost(const incarnation& inc, time_point now) {
  auto at = records_.find(inc);
  // A second broken connection without a sign of life in between must not extend the deadline that
  // the first one has set.
  if (at == records_.end() || at->second.lost)
    return;
  at->second.lost = true;
  at->second.lost_at = now;
}

void liveness::declare_dead(const incarnation& inc) {
  if (auto at = records_.find(inc); at != records_.end())
    at->second.dead = true;
}

void liveness::forgive(duration gap, time_point now) {
  PEERCACHE_ASSERT(gap >= duration::zero());
  for (auto& [inc, rec] : records_) {
    rec.heard_at = std::min(rec.heard_at + gap, now);
    if (rec.lost)
      rec.lost_at = std::min(rec.lost_at + gap, now);
  }
}

bool liveness::silent(const incarnation& inc, time_point now) const {
  auto at = records_.find(inc);
  if (at == records_.end() || at->second.dead)
    return true;
  const auto& rec = at->second;
  return now - rec.heard_at > expiry_ + rec.patience ||
         (rec.lost && now - rec.lost_at > lost_expiry_);
}

departure liveness::why_silent(const incarnation& inc) const {
  const auto at = records_.find(inc);
  if (at == records_.end())
    return departure::silent;
  if (at->second.dead)
    return departure::replaced;
  return at->second.lost ? departure::connection_broke : departure::silent;
}

} // namespace peercache::discovery
