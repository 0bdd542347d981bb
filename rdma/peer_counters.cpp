#include "rdma/peer_counters.hpp"

namespace peercache::rdma {

peer_counts& peer_counters::of(const std::string& peer) {
  std::lock_guard hold(lock_);
  const auto found = counts_.find(peer);
  if (found != counts_.end())
    return found->second;
  return counts_[counts_.size() < peers_max ? peer : "others"];
}

void peer_counters::for_each(
    const std::function<void(const std::string&, const peer_counts&)>& look) const {
  std::lock_guard hold(lock_);
  for (const auto& [peer, counts] : counts_)
    look(peer, counts);
}

} // namespace peercache::rdma
