#include "client/calls/hold_call.hpp"

#include "client/calls/holder_questions.hpp"
#include "common/assert.hpp"
#include "storage/page_holds.hpp"

#include <algorithm>
#include <utility>

namespace peercache::client {

using std::chrono::steady_clock;
using storage::hold_outcome;

namespace {

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

hold_call::hold_call(client_impl& client, const exists_hold& wanted, std::span<page_result> results,
                     deadline until, bool chain)
    : client_(client), wanted_{std::clamp(wanted.duration, std::chrono::milliseconds{0},
                                          exists_hold::duration_max),
                               wanted.group_pages},
      results_(results), until_(until), chain_(chain), chain_end_(results.size()) {}

void hold_call::begin(const own_pool_ptr& own) {
  own_ = own;
  elsewhere_.clear();
  found_here_ = 0;
}

void hold_call::found(std::size_t index, const directory::page_location& at) {
  if (!wanted())
    return;
  PEERCACHE_ASSERT(index < results_.size());
  if (at.where == directory::tier::disk)
    return count(hold_fate::on_disk);
  if (index == sure_)
    ++sure_;
  const place page{at.holder, at.gen, static_cast<std::uint32_t>(index), at.slot, at.length_bytes};
  if (own_ && at.holder == own_->node.inc)
    hold_soon(page);
  else
    elsewhere_.push_back(page);
}

void hold_call::hold_found_here() {
  for (auto next = found_here_ - std::min(found_here_, holds_ahead); next < found_here_; ++next)
    hold_here(soon_[next % holds_ahead]);
  course_.reset();
  found_here_ = 0;
}

void hold_call::end_chain(std::size_t index) {
  chain_end_ = std::min(chain_end_, index);
  std::erase_if(elsewhere_, [this](const place& page) { return page.index >= chain_end_; });
}

void hold_call::run() {
  hold_found_here();
  ask_holders();
}

void hold_call::note(std::uint32_t index, hold_outcome outcome) {
  results_[index].held = outcome == hold_outcome::held;
  count(fate_of(outcome));
}

void hold_call::hold_soon(const place& page) {
  auto& board = client_.session.board();
  if (!course_) {
    const auto now = steady_clock::now();
    board.holding.held_until(now + wanted_.duration);
    course_.emplace(own_->holds, board.hold_tag, now, now + wanted_.duration);
  }
  own_->holds.prefetch(page.slot);
  auto& oldest = soon_[found_here_ % holds_ahead];
  if (found_here_++ >= holds_ahead)
    hold_here(oldest);
  oldest = page;
}

void hold_call::hold_here(const place& page) {
  note(page.index,
       storage::hold_page(*course_, own_->slots, page.slot, page.gen, page.length_bytes));
  keep_to_settle(page);
}

void hold_call::keep_to_settle(const place& page) {
  const bool may_go = wanted_.group_pages > 1 || (chain_ && page.index >= sure_);
  if (may_go && results_[page.index].held)
    held_.push_back(page);
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
  auto& board = client_.session.board();
  const auto cluster = board.topology();
  client_.hold_channels.follow(cluster->view);
  client_.hold_health.follow(cluster->view);
  const auto begun = steady_clock::now();
  const auto until =
      std::min(until_, begun + patience - std::min<steady_clock::duration>(waited_, patience));
  board.holding.held_until(until + wanted_.duration);
  holder_questions questions{client_.hold_channels, client_.hold_health, client_.closing,
                             board.hold_tag.value};
  std::vector<std::optional<std::size_t>> asked;
  std::size_t questions_asked = 0;
  for (const auto& share : plan.shares()) {
    const auto* holder = cluster->find(share.holder);
    asked.emplace_back();
    if (holder == nullptr || !holder->linked() || begun >= until)
      continue;
    asked.back() = questions_asked++;
    questions.ask(*holder, board.releases, share.request,
                  static_cast<std::uint32_t>(wanted_.duration.count()), begun);
  }
  questions.wait(until);
  waited_ += steady_clock::now() - begun;
  for (std::size_t i = 0; i < asked.size(); ++i)
    take(plan.shares()[i], asked[i] ? questions.answer(*asked[i]) : std::nullopt);
  for (const auto& page : elsewhere_)
    keep_to_settle(page);
}

void hold_call::take(const hold_plan::share& asked, const std::optional<std::string>& answer) {
  for (std::size_t i = 0; i < asked.indices.size(); ++i)
    if (answer)
      note(asked.indices[i], hold_plan::outcome(*answer, i));
    else
      count(hold_fate::unanswered);
}

bool hold_call::group_is_held(std::size_t index) const {
  if (wanted_.group_pages <= 1)
    return true;
  const auto first = index - index % wanted_.group_pages;
  const auto group =
      results_.subspan(first, std::min<std::size_t>(wanted_.group_pages, results_.size() - first));
  return std::all_of(group.begin(), group.end(), [](const auto& page) { return page.held; });
}

void hold_call::give_back(const place& page) {
  if (own_ && page.holder == own_->node.inc)
    own_->end_hold(page.slot, page.length_bytes, client_.session.board().hold_tag,
                   steady_clock::now());
  else
    client_.session.board().releases.add(page.holder, page.slot, page.gen);
}

void hold_call::settle() {
  client_.totals.count_holds(counts_);
  std::vector<std::uint32_t> given_back;
  for (const auto& page : held_)
    if (page.index >= chain_end_ || !group_is_held(page.index)) {
      give_back(page);
      given_back.push_back(page.index);
    }
  for (const auto index : given_back)
    results_[index].held = false;
}

} // namespace peercache::client
