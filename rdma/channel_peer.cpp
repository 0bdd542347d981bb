#include "rdma/channel_peer.hpp"

#include "common/printable.hpp"

#include <algorithm>

namespace peercache::rdma {

namespace {

/// The counts under the peer's name; null when nobody counts by peer. The name comes from another
/// process, so it is made printable, as label values of metrics must be.
peer_counts* counts_of(const peer_endpoint& at, const channel_plane_options& opts) {
  if (opts.counters == nullptr || at.name.empty())
    return nullptr;
  return &opts.counters->of(printable(at.name));
}

} // namespace

channel_peer::channel_peer(const peer_endpoint& at, const channel_plane_options& opts)
    : endpoint(at), breaker(opts.breaker), counts(counts_of(at, opts)) {}

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

void channel_peer::count_error() noexcept {
  if (counts != nullptr)
    counts->errors.fetch_add(1, std::memory_order_relaxed);
}

void channel_peer::count_late(const batch_job& job) noexcept {
  for (const auto& channel : channels)
    if (channel->job() == &job)
      count_error();
}

} // namespace peercache::rdma
