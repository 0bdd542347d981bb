#include "actors/overlap/gpu_window.hpp"

#include "common/assert.hpp"

#include <algorithm>
#include <bit>
#include <iterator>
#include <vector>

namespace peercache::actors {

gpu_window::reporter* gpu_window::reporter_of(std::uint64_t id) {
  if (const auto known = reporters_.find(id); known != reporters_.end())
    return &known->second;
  const auto free = std::countr_one(bits_in_use_);
  if (free == reporters_max)
    return nullptr;
  auto& made = reporters_[id];
  made.bit = bits{1} << free;
  bits_in_use_ |= made.bit;
  return &made;
}

void gpu_window::forget_keys(reporter& who) {
  if (who.keys == 0)
    return;
  for (auto entry = held_.begin(); entry != held_.end();) {
    entry->second &= ~who.bit;
    entry = entry->second == 0 ? held_.erase(entry) : std::next(entry);
  }
  who.keys = 0;
}

bool gpu_window::take(std::uint64_t id, const link::gpu_report& told) {
  auto* who = reporter_of(id);
  if (who == nullptr) {
    refused_ += told.stored.size();
    return false;
  }
  who->rank = told.rank;
  if (told.anew)
    forget_keys(*who);
  for (const auto prefix : told.evicted) {
    const auto found = held_.find(prefix);
    if (found == held_.end() || (found->second & who->bit) == 0)
      continue;
    --who->keys;
    if ((found->second &= ~who->bit) == 0)
      held_.erase(found);
  }
  for (const auto prefix : told.stored) {
    auto found = held_.find(prefix);
    if (found == held_.end() && held_.size() < keys_max_)
      found = held_.emplace(prefix, bits{0}).first;
    if (found == held_.end()) {
      ++refused_;
    } else if ((found->second & who->bit) == 0) {
      found->second |= who->bit;
      ++who->keys;
    }
  }
  return true;
}

void gpu_window::drop(std::uint64_t id) {
  const auto found = reporters_.find(id);
  if (found == reporters_.end())
    return;
  forget_keys(found->second);
  bits_in_use_ &= ~found->second.bit;
  reporters_.erase(found);
}

gpu_window::bits gpu_window::holders_of(std::uint64_t prefix) const noexcept {
  const auto found = held_.find(prefix);
  return found == held_.end() ? bits{0} : found->second;
}

link::gpu_run gpu_window::leading(const link::gpu_question& asked) const {
  PEERCACHE_ASSERT(asked.spaces > 0 && asked.prefixes.size() % asked.spaces == 0);
  link::gpu_run run;
  run.knows_any = !held_.empty();
  std::map<std::uint32_t, bits> running; // The reporters of each rank whose run has not ended.
  for (const auto& [id, who] : reporters_)
    running[who.rank] |= who.bit;
  // For each key space, the reporters that have held all its pages so far.
  std::vector<bits> holders(asked.spaces, ~bits{0});
  for (std::size_t at = 0; at < asked.prefixes.size() && !running.empty(); at += asked.spaces) {
    for (std::size_t space = 0; space < asked.spaces; ++space)
      holders[space] &= holders_of(asked.prefixes[at + space]);
    std::erase_if(running, [&](const auto& rank) {
      return std::any_of(holders.begin(), holders.end(),
                         [&](bits of_space) { return (of_space & rank.second) == 0; });
    });
    if (running.empty())
      break;
    ++run.blocks;
    for (const auto& [rank, who] : running)
      if (rank != link::gpu_report::no_rank)
        ++run.ranks[rank];
  }
  return run;
}

} // namespace peercache::actors
