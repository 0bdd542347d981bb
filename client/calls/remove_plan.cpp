#include "client/calls/remove_plan.hpp"

#include "common/assert.hpp"
#include "link/protocol/pool_wire.hpp"

#include <algorithm>

namespace peercache::client {

using std::chrono::nanoseconds;

page_status join_removals(page_status so_far, page_status said) noexcept {
  auto rank = [](page_status status) {
    switch (status) {
    case page_status::pending:
      return 0;
    case page_status::not_found:
      return 1;
    case page_status::hit:
      return 2;
    default:
      return 3;
    }
  };
  return rank(said) > rank(so_far) ? said : so_far;
}

remove_plan::remove_plan(std::span<const page_key> keys, std::span<page_result> results)
    : keys_(keys), results_(results) {
  PEERCACHE_ASSERT(keys.size() == results.size());
  std::fill(results_.begin(), results_.end(), page_result{});
}

nanoseconds remove_plan::patience(nanoseconds left, bool is_last_piece) {
  return is_last_piece ? left : lookup_plan::patience_for_view(left);
}

void remove_plan::looked_up(std::span<const lookup_answer> answers) {
  PEERCACHE_ASSERT(answers.size() == keys_.size() && answers_.empty());
  answers_.assign(answers.begin(), answers.end());
  for (std::size_t i = 0; i < answers_.size(); ++i)
    if (answers_[i].status != page_status::hit)
      settle(i, answers_[i].status);
}

std::span<const directory::page_location>
remove_plan::locations_of(std::size_t index) const noexcept {
  if (answers_.empty())
    return {};
  const auto& answer = answers_[index];
  return std::span(answer.locations).first(answer.count);
}

void remove_plan::add(std::vector<share>& shares, const incarnation& holder,
                      std::size_t index) const {
  auto part = std::find_if(shares.begin(), shares.end(),
                           [&](const share& one) { return one.holder == holder; });
  if (part == shares.end())
    part = shares.insert(shares.end(), {holder, {}, {}});
  link::append_record(part->keys, keys_[index]);
  part->indices.push_back(index);
}

std::vector<remove_plan::share> remove_plan::ask_holders(const is_member& in_view,
                                                         const incarnation& own) const {
  std::vector<share> shares;
  for (std::size_t i = 0; i < keys_.size(); ++i)
    for (const auto& at : locations_of(i))
      if (in_view(at))
        add(shares, at.holder, i);
  if (own == incarnation{})
    return shares;
  // Pages of this host that the directory does not know (yet) are removed by this host's node.
  for (const auto i : here_) {
    const auto known = locations_of(i);
    if (std::none_of(known.begin(), known.end(), [&](const auto& at) { return at.holder == own; }))
      add(shares, own, i);
  }
  return shares;
}

std::vector<remove_plan::share> remove_plan::ask_all(std::span<const incarnation> members) const {
  share all;
  for (std::size_t i = 0; i < keys_.size(); ++i) {
    link::append_record(all.keys, keys_[i]);
    all.indices.push_back(i);
  }
  std::vector<share> shares;
  for (const auto& member : members) {
    all.holder = member;
    shares.push_back(all);
  }
  return shares;
}

void remove_plan::answered(const share& asked, std::string_view statuses, stale_records& stale) {
  for (std::size_t i = 0; i < asked.indices.size(); ++i) {
    const auto index = asked.indices[i];
    const auto said =
        i < statuses.size() ? static_cast<page_status>(statuses[i]) : page_status::refused;
    const bool known = said == page_status::hit || said == page_status::not_found;
    settle(index, known ? said : page_status::refused);
    if (said != page_status::not_found)
      continue;
    for (const auto& false_record : locations_of(index))
      if (false_record.holder == asked.holder)
        stale.add({keys_[index], false_record.holder, false_record.gen});
  }
}

void remove_plan::settle(std::size_t index, page_status said) noexcept {
  PEERCACHE_ASSERT(said != page_status::pending);
  results_[index].status = join_removals(results_[index].status, said);
}

void remove_plan::settle(const share& part, page_status said) noexcept {
  for (const auto index : part.indices)
    settle(index, said);
}

void remove_plan::end() {
  for (auto& result : results_)
    if (result.status == page_status::pending) // All holders of the page have left the view since
                                               // the look-up.
      result.status = page_status::not_found;
}

void remove_plan::end_everywhere(bool nobody_missing) {
  for (std::size_t i = 0; i < results_.size(); ++i)
    if (!nobody_missing || results_[i].status == page_status::pending)
      settle(i, page_status::unreachable);
}

} // namespace peercache::client
