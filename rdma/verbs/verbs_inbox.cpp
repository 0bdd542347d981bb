#include "rdma/verbs/verbs_inbox.hpp"

#include <utility>

namespace peercache::rdma {

bool verbs_inbox::push(verbs_arrival& arrival) {
  const std::lock_guard lock(mutex_);
  if (waiting_.size() >= arrivals_max_)
    return false;
  waiting_.push_back(std::move(arrival));
  has_some_.store(true, std::memory_order_release);
  return true;
}

std::vector<verbs_arrival> verbs_inbox::take(std::size_t at_most) {
  std::vector<verbs_arrival> taken;
  if (empty())
    return taken;
  const std::lock_guard lock(mutex_);
  while (!waiting_.empty() && taken.size() < at_most) {
    taken.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
  has_some_.store(!waiting_.empty(), std::memory_order_release);
  return taken;
}

} // namespace peercache::rdma
