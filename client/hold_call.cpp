#include "client/hold_call.hpp"

#include "client/member_answers.hpp"
#include "common/assert.hpp"
#include "link/member_question.hpp"

#include <algorithm>
#include <utility>

namespace peercache::client {

using std::chrono::steady_clock;
using storage::hold_outcome;

namespace {

/// How many pages ahead the memory of holds is fetched.
constexpr std::size_t holds_ahead = 8;

hold_fate fate_of(hold_outcome outcome) noexcept {
  switch (outcome) {
  case hold_outcome::held:
    return hold_fate::held;
  case hold_outcome::refused:
    return hold_fate::refused;
  case hold_outcome::gone:
    break;
  }
  return hold_fate::gone;
}

} // namespace

hold_call::hold_call(cache_client::impl& client, const exists_hold& wanted,
                     std::span<page_result> results, deadline until)
    : client_(client), wanted_{std::clamp(wanted.duration, std::chrono::milliseconds{0},
                                          exists_hold::duration_max),
                               wanted.group_pages},
      results_(results), until_(until) {}

void hold_call::begin(const own_pool_ptr& own) {
  own_ = own;
  here_.clear();
  elsewhere_.clear();
}

void hold_call::found(std::size_t index, const directory::page_location& at) {
  if (!wanted())
    return;
  PEERCACHE_ASSERT(index < results_.size());
  if (at.where == directory::tier::disk)
    return count(hold_fate::on_disk);
  const place page{at.holder, at.gen, static_cast<std::uint32_t>(index), at.slot, at.length_bytes};
  const bool here = own_ && at.holder == own_->node.inc;
  (here ? here_ : elsewhere_).push_back(page);
}

void hold_call::run() {
  if (here_.empty() && elsewhere_.empty())
    return;
  client_.session.board().holding.held_until(steady_clock::now() + wanted_.duration + patience);
  hold_here();
  ask_holders();
  if (wanted_.group_pages <= 1)
    return;
  for (const auto* pages : {&here_, &elsewhere_})
    for (const auto& page : *pages)
      if (results_[page.index].held)
        held_.push_back(page);
}

void hold_call::note(std::uint32_t index, hold_outcome outcome) {
  results_[index].held = outcome == hold_outcome::held;
  count(fate_of(outcome));
}

void hold_call::hold_here() {
  const auto now = steady_clock::now();
  const auto who = client_.session.board().holder;
  for (std::size_t i = 0; i < here_.size(); ++i) {
    if (i + holds_ahead < here_.size())
      own_->holds.prefetch(here_[i + holds_ahead].slot);
    const auto& page = here_[i];
    note(page.index,
         own_->hold(page.slot, page.gen, page.length_bytes, who, now, now + wanted_.duration));
  }
}

void hold_call::ask_holders() {
  if (elsewhere_.empty())
    return;
  hold_plan plan;
  for (const auto& page : elsewhere_) {
    directory::page_location at;
    at.holder = page.holder;
    at.gen = page.gen;
    at.slot = page.slot;
    plan.add(page.index, at);
  }
  const auto cluster = client_.session.board().topology();
  const auto until = std::min(until_, steady_clock::now() + patience);
  const auto who = client_.session.board().holder.value;
  const auto for_ms = static_cast<std::uint32_t>(wanted_.duration.count());
  member_answers answers(client_.session.members(), client_.session.closing());
  std::vector<std::optional<std::size_t>> asked;
  for (const auto& share : plan.shares()) {
    const auto* holder = cluster->find(share.holder);
    asked.emplace_back();
    if (holder != nullptr && holder->linked() && steady_clock::now() < until)
      asked.back() = answers.ask(share.holder, link::member_question::hold,
                                 link::hold_body({who, for_ms, share.request}), until);
  }
  answers.wait(until);
  for (std::size_t i = 0; i < asked.size(); ++i)
    take(plan.shares()[i], asked[i] ? answers.take(*asked[i]).body : std::nullopt);
}

void hold_call::take(const hold_plan::share& asked, const std::optional<std::string>& answer) {
  for (std::size_t i = 0; i < asked.indices.size(); ++i)
    if (answer)
      note(asked.indices[i], hold_plan::outcome(*answer, i));
    else
      count(hold_fate::unanswered);
}

bool hold_call::group_is_held(std::size_t index) const {
  const auto first = index - index % wanted_.group_pages;
  const auto group =
      results_.subspan(first, std::min<std::size_t>(wanted_.group_pages, results_.size() - first));
  return std::all_of(group.begin(), group.end(), [](const auto& page) { return page.held; });
}

void hold_call::give_back(const place& page) {
  if (own_ && page.holder == own_->node.inc)
    own_->end_hold(page.slot, page.length_bytes, client_.session.board().holder,
                   steady_clock::now());
  else
    client_.session.board().releases.add(page.holder, page.slot, page.gen);
}

void hold_call::settle() {
  client_.totals.count_holds(counts_);
  std::vector<std::uint32_t> given_back;
  for (const auto& page : held_)
    if (!group_is_held(page.index)) {
      give_back(page);
      given_back.push_back(page.index);
    }
  for (const auto index : given_back)
    results_[index].held = false;
}

} // namespace peercache::client
