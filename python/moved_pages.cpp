#include "python/moved_pages.hpp"

#include <algorithm>

namespace peercache::python {

void moved_pages::add(std::span<const page_key> keys) {
  std::lock_guard lock{mutex_};
  for (const auto& key : keys)
    if (known_.insert(key).second)
      oldest_first_.push_back(key);
  for (; oldest_first_.size() > most_; oldest_first_.pop_front())
    known_.erase(oldest_first_.front());
}

std::vector<page_key> moved_pages::take(std::size_t count) {
  std::lock_guard lock{mutex_};
  const auto end =
      oldest_first_.begin() + static_cast<std::ptrdiff_t>(std::min(count, oldest_first_.size()));
  std::vector<page_key> taken(oldest_first_.begin(), end);
  oldest_first_.erase(oldest_first_.begin(), end);
  for (const auto& key : taken)
    known_.erase(key);
  return taken;
}

std::size_t moved_pages::size() const {
  std::lock_guard lock{mutex_};
  return oldest_first_.size();
}

} // namespace peercache::python
