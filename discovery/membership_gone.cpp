// The lists of gone members in views: the process that proposes a view says who is gone since the
// previous view, and why.

#include "common/limits.hpp"
#include "discovery/membership.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace peercache::discovery {

std::vector<action> membership::forget(std::string_view name, time_point now) {
  if (!leads() || view_.find_gone(name) == nullptr)
    return {};
  notice_own_pause(now);
  forgotten_.emplace(name);
  pursue();
  return take_actions();
}

/// Whether this node's view lists a gone member that an operator has told this node to forget.
bool membership::forgets_some() const {
  return std::any_of(view_.gone.begin(), view_.gone.end(),
                     [this](const departed& each) { return forgotten_.count(each.name) > 0; });
}

/// Returns the processes that are gone in the view `next`: those gone in the base view that are
/// neither back nor forgotten, and the members of the base view that `next` lacks although they
/// have not said that they leave.
std::vector<departed> membership::gone_after(const view& next) const {
  std::vector<departed> gone;
  for (const auto& each : base().gone)
    if (next.find_name(each.name) == nullptr && forgotten_.count(each.name) == 0)
      gone.push_back(each);
  for (const auto& m : base().members) {
    const bool leaves = leavers_.count(m.inc) > 0 || (m.inc == self_.inc && phase_ == phase::left);
    if (next.find(m.id) == nullptr && !leaves)
      gone.push_back({m.name, m.host, m.control_port, unix_ms(), why_gone(m)});
  }
  if (gone.size() > limits::gone_members_max)
    gone.erase(gone.begin(), gone.end() - limits::gone_members_max);
  return gone;
}

/// Why the member `who` of the base view is left out of the next view. A successor of a gone master
/// hears no members; it knows only which masters were replaced.
departure membership::why_gone(const member& who) const {
  if (round_ && round_->succeeded(who.id))
    return departure::replaced;
  return liveness_.why_silent(who.inc);
}

/// The Unix time at `now_`, in ms.
std::uint64_t membership::unix_ms() const {
  const auto lived = std::chrono::duration_cast<std::chrono::milliseconds>(now_ - began_);
  return options_.unix_ms + static_cast<std::uint64_t>(lived.count());
}

} // namespace peercache::discovery
