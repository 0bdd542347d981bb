#include "actors/membership/turned_away.hpp"

#include "common/assert.hpp"
#include "common/fault_ids.hpp"

#include <algorithm>
#include <utility>

namespace peercache::actors {

bool turned_away::make_room() {
  if (callers_.size() < callers_max)
    return true;
  const auto oldest = std::min_element(callers_.begin(), callers_.end(), [](auto& a, auto& b) {
    return std::pair(a.second.is_named(), a.second.last) <
           std::pair(b.second.is_named(), b.second.last);
  });
  if (oldest->second.is_named())
    return false;
  callers_.erase(oldest);
  return true;
}

void turned_away::note(const std::string& who, std::string why, std::string fix, time_point now,
                       std::uint64_t today) {
  std::erase_if(callers_, [now](const auto& entry) { return now - entry.second.last > kept_for; });
  if (!callers_.contains(who) && !make_room())
    return;
  const auto [at, is_new] = callers_.try_emplace(who);
  auto& known = at->second;
  if (is_new) {
    known.first = now;
    known.since_ms = today;
  }
  known.why = std::move(why);
  known.fix = std::move(fix);
  known.last = now;
  PEERCACHE_ASSERT(callers_.size() <= callers_max);
}

void turned_away::forget(const std::string& who) {
  callers_.erase(who);
}

std::vector<link::node_fault> turned_away::faults(time_point now) const {
  std::vector<link::node_fault> all;
  for (const auto& [who, known] : callers_)
    if (known.is_named() && now - known.last <= kept_for)
      all.emplace_back(fault_ids::join_turned_away, "refuses " + who + ": " + known.why, known.fix,
                       known.since_ms);
  return all;
}

} // namespace peercache::actors
