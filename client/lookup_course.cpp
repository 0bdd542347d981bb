#include "client/lookup_course.hpp"

#include "common/assert.hpp"

#include <algorithm>
#include <utility>

namespace peercache::client {
namespace {

using namespace std::chrono_literals;

bool has(const std::vector<node_id>& ids, node_id wanted) {
  return std::find(ids.begin(), ids.end(), wanted) != ids.end();
}

} // namespace

void lookup_course::begin(lookup_plan& plan) noexcept {
  plan_ = &plan;
  rounds_ = 0;
}

lookup_plan::use lookup_course::usable(node_id id, const incarnation* owner, bool now_asked,
                                       deadline now) {
  if (owner == nullptr)
    return lookup_plan::use::no_link;
  if (has(given_up_, id))
    return lookup_plan::use::left_alone;
  if (has(chosen_, id))
    return lookup_plan::use::yes;
  if (!now_asked) {
    if (has(free_, id))
      return lookup_plan::use::yes;
    if (health_.is_left_alone(*owner, now))
      return lookup_plan::use::left_alone;
    free_.push_back(id);
    return lookup_plan::use::yes;
  }
  if (health_.allow(*owner, now)) {
    chosen_.push_back(id);
    return lookup_plan::use::yes;
  }
  given_up_.push_back(id);
  return lookup_plan::use::left_alone;
}

std::vector<lookup_plan::share> lookup_course::next_round(const process_of& linked, deadline now,
                                                          deadline until) {
  PEERCACHE_ASSERT(plan_ != nullptr && rounds_ <= lookup_plan::rounds_max);
  const bool in_time = until - now >= 1ms;
  std::vector<lookup_plan::share> shares;
  if (in_time && rounds_++ < lookup_plan::rounds_max)
    shares = plan_->next_round(
        [&](node_id id, bool now_asked) { return usable(id, linked(id), now_asked, now); });
  if (shares.empty())
    plan_->finish(in_time);
  return shares;
}

bool lookup_course::answered(const lookup_plan::share& asked, const incarnation& owner,
                             std::string_view answer, deadline now) {
  if (!plan_->answered(asked, answer)) {
    failed(asked, owner, page_status::unreachable, now);
    return false;
  }
  health_.on_success(owner);
  return true;
}

void lookup_course::failed(const lookup_plan::share& asked, const incarnation& owner,
                           page_status reason, deadline now) {
  given_up_.push_back(asked.owner);
  health_.on_failure(owner, now);
  plan_->failed(asked, reason);
}

bool lookup_course::wants_view() noexcept {
  return plan_->is_behind() && !std::exchange(has_view_, true);
}

} // namespace peercache::client
