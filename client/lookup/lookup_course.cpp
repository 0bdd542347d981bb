#include "client/lookup/lookup_course.hpp"

#include "common/assert.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace peercache::client {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;

/// Time after which an answer is overdue. A living owner answers in 0.1 ms, on a crowded machine
/// some milliseconds later.
constexpr nanoseconds overdue_after = 10ms;
/// Time that an owner may take for each key on top of `overdue_after`, so that large questions to a
/// busy owner are not asked twice.
constexpr nanoseconds overdue_for_each_key = 2us;
/// `overdue_after` for an owner that has left a question unanswered lately.
constexpr nanoseconds doubtful_overdue_after = 4ms;
/// Time for an answer that can only contradict another owner, which knows nothing of the key. When
/// it has passed, the key is `not_found`, so a frozen owner holds a look-up up no longer than this;
/// if the page was just set, the next look-up finds it.
constexpr nanoseconds second_opinion_after = 12ms;

bool has(const std::vector<node_id>& ids, node_id wanted) {
  return std::find(ids.begin(), ids.end(), wanted) != ids.end();
}

nanoseconds time_for(std::size_t keys) {
  return static_cast<std::int64_t>(keys) * overdue_for_each_key;
}

nanoseconds time_to_answer(std::size_t keys, bool is_doubtful, nanoseconds left) {
  const auto usual = (is_doubtful ? doubtful_overdue_after : overdue_after) + time_for(keys);
  return std::clamp<nanoseconds>(left / 4, 1ms, usual);
}

nanoseconds time_for_opinion(std::size_t keys, bool is_doubtful) {
  return (is_doubtful ? overdue_after : second_opinion_after) + time_for(keys);
}

} // namespace

void lookup_course::begin(lookup_plan& plan) {
  plan_ = &plan;
  rounds_ = 0;
  over_ = false;
  questions_.clear();
}

lookup_plan::use lookup_course::usable(node_id id, const incarnation* owner, deadline now) {
  using use = lookup_plan::use;
  if (owner == nullptr)
    return use::no_link;
  if (has(given_up_, id))
    return use::left_alone;
  const bool silent =
      has(silent_, id) || std::any_of(questions_.begin(), questions_.end(), [&](const auto& asked) {
        return asked.open && asked.share.owner == id;
      });
  if (has(chosen_, id))
    return silent ? use::unwillingly : use::yes;
  if (health_.allow(*owner, now)) {
    chosen_.push_back(id);
    return silent ? use::unwillingly : use::yes;
  }
  given_up_.push_back(id);
  return use::left_alone;
}

deadline lookup_course::end_of(const question& asked, deadline until) const {
  if (!asked.share.overdue)
    return std::min(asked.overdue_at, until);
  switch (plan_->worth_of(asked.share)) {
  case lookup_plan::worth::nothing:
    return asked.asked_at;
  case lookup_plan::worth::another_opinion:
    return std::min(asked.opinion_until, until);
  case lookup_plan::worth::only_answer:
    break;
  }
  return until;
}

void lookup_course::look(deadline now, deadline until) {
  next_look_ = deadline::max();
  for (auto& asked : questions_) {
    if (!asked.open)
      continue;
    if (until - now < 1ms) {
      failed(asked, page_status::timed_out, now);
      continue;
    }
    if (!asked.share.overdue && asked.overdue_at <= now)
      plan_->set_overdue(asked.share);
    if (asked.share.overdue && end_of(asked, until) <= now)
      give_up(asked, now);
    else
      next_look_ = std::min(next_look_, end_of(asked, until));
  }
}

bool lookup_course::is_waiting() const noexcept {
  return std::any_of(questions_.begin(), questions_.end(),
                     [](const auto& asked) { return asked.open && !asked.share.overdue; });
}

const lookup_course::question* lookup_course::unanswered(node_id owner) const noexcept {
  const auto found = std::find_if(questions_.begin(), questions_.end(), [&](const auto& asked) {
    return asked.open && asked.share.overdue && asked.share.owner == owner;
  });
  return found == questions_.end() ? nullptr : &*found;
}

std::vector<lookup_course::question*> lookup_course::ask(std::vector<lookup_plan::share> shares,
                                                         const process_of& linked, deadline now,
                                                         deadline until) {
  std::vector<question*> due;
  due.reserve(shares.size());
  for (auto& share : shares) {
    const auto* owner = linked(share.owner);
    PEERCACHE_ASSERT(owner != nullptr); // The plan asks linked owners only.
    auto& asked = questions_.emplace_back();
    asked.share = std::move(share);
    asked.owner = *owner;
    asked.asked_at = now;
    const bool is_doubtful = health_.is_silent(*owner, now);
    const auto keys = asked.share.indices.size();
    asked.overdue_at = now + time_to_answer(keys, is_doubtful, until - now);
    asked.opinion_until = now + time_for_opinion(keys, is_doubtful);
    if (const auto* before = unanswered(asked.share.owner)) {
      asked.asked_at = before->asked_at;
      asked.overdue_at = now;
      asked.opinion_until = before->opinion_until;
    }
    next_look_ = std::min(next_look_, asked.overdue_at);
    due.push_back(&asked);
  }
  return due;
}

std::vector<lookup_course::question*> lookup_course::next_round(const process_of& linked,
                                                                deadline now, deadline until) {
  PEERCACHE_ASSERT(plan_ != nullptr && !over_);
  const bool in_time = until - now >= 1ms;
  look(now, until);
  if (is_waiting())
    return {};
  std::vector<question*> due;
  const auto may_ask = [&](node_id id) { return usable(id, linked(id), now); };
  if (in_time && rounds_ < lookup_plan::rounds_max)
    due = ask(plan_->next_round(std::cref(may_ask)), linked, now, until);
  rounds_ += due.empty() ? 0 : 1;
  const bool has_hope = std::any_of(questions_.begin(), questions_.end(),
                                    [](const auto& asked) { return asked.open; });
  if (!has_hope) {
    plan_->finish(in_time);
    over_ = true;
  }
  return due;
}

bool lookup_course::answered(question& asked, std::string_view answer, deadline now) {
  PEERCACHE_ASSERT(asked.open);
  if (!plan_->answered(asked.share, answer)) {
    failed(asked, page_status::unreachable, now);
    return false;
  }
  asked.open = false;
  health_.on_success(asked.owner);
  if (rounds_ == 1)
    return true; // The owner was asked once.
  // The owner lives: the time for its other open questions begins anew.
  for (auto& other : questions_)
    if (other.open && other.share.owner == asked.share.owner) {
      other.asked_at = now;
      other.opinion_until =
          std::max(other.opinion_until, now + overdue_after + time_for(other.share.indices.size()));
    }
  return true;
}

void lookup_course::failed(question& asked, page_status reason, deadline now) {
  PEERCACHE_ASSERT(asked.open);
  asked.open = false;
  given_up_.push_back(asked.share.owner);
  health_.on_failure(asked.owner, now);
  plan_->failed(asked.share, reason);
}

void lookup_course::give_up(question& asked, deadline now) {
  asked.open = false;
  // An owner that had less than the usual time is not blamed: other owners only answered first.
  if (now - asked.asked_at < overdue_after + time_for(asked.share.indices.size()))
    return health_.on_nothing(asked.owner, now);
  silent_.push_back(asked.share.owner);
  health_.on_silence(asked.owner, asked.asked_at, now);
}

bool lookup_course::wants_view() noexcept {
  return !is_waiting() && plan_->is_behind() && !std::exchange(has_view_, true);
}

} // namespace peercache::client
