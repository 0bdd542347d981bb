#include "client/notes/gpu_ledger.hpp"

#include <utility>

namespace peercache::client {

bool gpu_ledger::note(const gpu_news& news) {
  std::lock_guard guard{lock_};
  rank_ = news.rank.value_or(rank_);
  if (news.all_evicted) {
    held_.clear();
    start_over();
  }
  for (const auto& key : news.evicted)
    if (held_.erase(key.prefix()) > 0)
      changes_[key.prefix()] = false;
  for (const auto& key : news.stored) {
    if (held_.size() >= keys_max_ && !held_.contains(key.prefix()))
      ++left_out_;
    else if (held_.insert(key.prefix()).second)
      changes_[key.prefix()] = true;
  }
  if (changes_.size() > 2 * keys_max_)
    start_over();
  return (anew_ || !changes_.empty()) && !std::exchange(awake_, true);
}

void gpu_ledger::start_over() {
  anew_ = true;
  changes_.clear();
  for (const auto prefix : held_)
    changes_[prefix] = true;
}

std::optional<link::gpu_report> gpu_ledger::next() {
  std::lock_guard guard{lock_};
  if (!anew_ && changes_.empty()) {
    awake_ = false;
    return std::nullopt;
  }
  link::gpu_report report;
  report.rank = rank_;
  report.anew = std::exchange(anew_, false);
  for (auto change = changes_.begin();
       change != changes_.end() &&
       report.stored.size() + report.evicted.size() < link::gpu_report::keys_max;
       change = changes_.erase(change))
    (change->second ? report.stored : report.evicted).push_back(change->first);
  return report;
}

bool gpu_ledger::begin_again() {
  std::lock_guard guard{lock_};
  start_over();
  anew_ = !held_.empty();
  awake_ = anew_;
  return anew_;
}

void gpu_ledger::tell_again() {
  std::lock_guard guard{lock_};
  start_over();
  awake_ = true;
}

std::uint64_t gpu_ledger::left_out() const {
  std::lock_guard guard{lock_};
  return left_out_;
}

} // namespace peercache::client
