#include "actors/disk/promotions.hpp"

#include "common/assert.hpp"

#include <algorithm>

namespace peercache::actors {

promotions::answer promotions::ask(const page_key& key, std::uint32_t length_bytes,
                                   std::optional<std::uint64_t> waiter, std::uint64_t until) {
  auto found = pages_.find(key);
  const bool joined = found != pages_.end();
  if (joined && waiter && found->second.waiters.size() >= waiters_max)
    return answer::refused;
  if (!joined) {
    if (pages_.size() >= pages_max)
      return answer::refused;
    // A page that nobody waits for is taken only while no queued page has a waiter, and while all
    // pages queued or on their way, itself included, fit into a quarter of `bytes_max_`.
    const bool full =
        waiter ? queue_.size() >= queued_max
               : waited_for_ != 0 || bytes_ + queued_bytes_ + length_bytes > bytes_max_ / 4;
    if (full)
      return answer::refused;
    queued_bytes_ += length_bytes;
    waited_for_ += waiter ? 1 : 0;
    found = pages_.emplace(key, page{{key, length_bytes, !waiter.has_value()}, {}, 0, false}).first;
    queue_.push_back(key);
  }
  auto& its = found->second;
  its.until = std::max(its.until, until);
  if (waiter) {
    if (its.what.warm && !its.started)
      ++waited_for_;
    its.what.warm = false;
    its.waiters.push_back(*waiter);
  }
  return joined ? answer::joined : answer::queued;
}

std::vector<std::uint64_t> promotions::finish(const page_key& key) {
  const auto found = pages_.find(key);
  PEERCACHE_ASSERT(found != pages_.end() && found->second.started);
  auto waiters = std::move(found->second.waiters);
  PEERCACHE_ASSERT(bytes_ >= found->second.what.length_bytes);
  bytes_ -= found->second.what.length_bytes;
  pages_.erase(found);
  PEERCACHE_ASSERT(bytes_ == 0 || !pages_.empty()); // Bytes of no page would stay counted for good.
  return waiters;
}

std::vector<promotions::job> promotions::start_next(std::uint64_t now, std::size_t count) {
  std::vector<job> jobs;
  while (!queue_.empty() && jobs.size() < count) {
    const auto found = pages_.find(queue_.front());
    PEERCACHE_ASSERT(found != pages_.end() && !found->second.started);
    auto& next = found->second;
    PEERCACHE_ASSERT(queued_bytes_ >= next.what.length_bytes);
    PEERCACHE_ASSERT(next.what.warm || waited_for_ > 0);
    const bool too_late = next.until < now;
    if (!too_late && bytes_ != 0 && bytes_ + next.what.length_bytes > bytes_max_)
      break;
    queued_bytes_ -= next.what.length_bytes;
    waited_for_ -= next.what.warm ? 0 : 1;
    if (too_late) {
      pages_.erase(found);
    } else {
      next.started = true;
      bytes_ += next.what.length_bytes;
      jobs.push_back(next.what);
    }
    queue_.pop_front();
  }
  PEERCACHE_ASSERT(queue_.size() <= pages_.size());
  PEERCACHE_ASSERT(!queue_.empty() || (queued_bytes_ == 0 && waited_for_ == 0));
  return jobs;
}

} // namespace peercache::actors
