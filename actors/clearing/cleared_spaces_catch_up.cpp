// Decides when a node that was started has heard of every clear that it may have missed.

#include "actors/clearing/cleared_spaces.hpp"

#include "common/assert.hpp"

#include <algorithm>
#include <set>
#include <string>

namespace peercache::actors {

life_record cleared_spaces::life() const {
  auto now = life_;
  if (leaves_)
    for (const auto& member : view_.members)
      if (member.inc != self_ && !ending_.contains(member.inc))
        now.left_behind.emplace(member.inc, member.name);
  return now;
}

void cleared_spaces::take_lineage(const incarnation& theirs) {
  const auto before = life_.lineage;
  life_.join_lineage(theirs);
  if (life_.lineage != before)
    told_.clear();
}

void cleared_spaces::catch_up(const incarnation& lineage) {
  PEERCACHE_ASSERT(!caught_up_); // A second call would forget whom this node leaves behind.
  caught_up_ = true;
  take_lineage(lineage);
  if (life_.lineage == incarnation{})
    take_lineage(self_);
  // A null lineage says that this node has not caught up.
  PEERCACHE_ASSERT(life_.lineage != incarnation{});
  life_.process = self_;
  life_.left_behind.clear();
}

/// Whether the sender of `said`, which has caught up, knows all clears that this node may have
/// missed: it was left behind, or has this node's lineage, or this node left nobody behind. Any
/// other node may have founded a new cluster when all nodes that this node left behind were gone.
bool cleared_spaces::knows_what_was_missed(const telling& said) const {
  return life_.left_behind.empty() || life_.left_behind.contains(said.from) ||
         (said.life.lineage == life_.lineage && life_.lineage != incarnation{});
}

/// Whether all nodes that this node left behind have told it what they know; where such a node has
/// not caught up itself, the nodes that it left behind must have told this node as well.
bool cleared_spaces::left_behind_have_told() const {
  auto to_hear = life_.left_behind;
  for (std::set<incarnation> done; !to_hear.empty();) {
    const auto process = to_hear.begin()->first;
    to_hear.erase(to_hear.begin());
    if (process == incarnation{})
      return false;
    if (process == life_.process || !done.insert(process).second)
      continue;
    const auto said = std::find_if(answers_.begin(), answers_.end(), [&](const auto& each) {
      return heard_.contains(each.first) &&
             (each.first == process || each.second.life.process == process);
    });
    if (said == answers_.end())
      return false;
    if (!said->second.caught_up)
      to_hear.insert(said->second.life.left_behind.begin(), said->second.life.left_behind.end());
  }
  return true;
}

void cleared_spaces::look_whether_caught_up() {
  if (caught_up_ || view_.find(self_) == nullptr || !left_behind_have_told())
    return;
  if (std::all_of(view_.members.begin(), view_.members.end(),
                  [this](const discovery::member& other) {
                    return other.inc == self_ || heard_.contains(other.inc);
                  }))
    catch_up({});
}

std::string cleared_spaces::awaited() const {
  return caught_up_ ? "" : life_.names();
}

} // namespace peercache::actors
