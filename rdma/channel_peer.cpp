#include "rdma/channel_peer.hpp"

#include <algorithm>

namespace peercache::rdma {

page_channel* channel_peer::idle_channel() noexcept {
  // A ready channel without a job serves at once; one without a job that is still connecting is
  // taken only when no channel is ready.
  page_channel* found = nullptr;
  for (const auto& channel : channels) {
    if (channel->idle())
      return channel.get();
    if (channel->job() == nullptr && channel->where() != page_channel::phase::broken)
      found = channel.get();
  }
  return found;
}

bool channel_peer::carries(const batch_job& job) const noexcept {
  return std::any_of(channels.begin(), channels.end(),
                     [&job](const auto& channel) { return channel->job() == &job; });
}

void channel_peer::forget_waiting(const batch_job& job) noexcept {
  std::erase(waiting, &job);
}

} // namespace peercache::rdma
