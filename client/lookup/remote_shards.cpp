#include "client/lookup/remote_shards.hpp"

#include "common/log.hpp"
#include "directory/wire.hpp"

#include <algorithm>
#include <utility>

namespace peercache::client {
namespace {

using namespace std::chrono_literals;
using directory::remote_search;

/// How long the node is asked after READs of its shard failed: its rail may be down, it may serve
/// no shard, or the rails may not reach each other.
constexpr auto asked_after_failure = 2s;

} // namespace

remote_shards::remote_shards(std::span<const std::unique_ptr<rdma::read_lane>> lanes,
                             std::unique_ptr<landing_stock> landing, std::string cluster,
                             counters& totals)
    : lanes_(lanes), cluster_(std::move(cluster)), counters_(totals), landing_(std::move(landing)) {
}

std::unique_ptr<landing_stock> remote_shards::landing_for(read_plane& plane) {
  if (!plane.has_rails())
    return nullptr;
  auto made = landing_stock::create(plane, searches_max, landing_bytes);
  if (made)
    return std::move(*made);
  log::warn("client: look-ups ask nodes instead of READing their shards: {}",
            to_string(made.error()));
  return nullptr;
}

void remote_shards::follow(const discovery::view& view) {
  const std::lock_guard guard{lock_};
  if (view.stamp() == followed_)
    return;
  followed_ = view.stamp();
  std::erase_if(shards_, [&](const auto& each) { return view.find(each.first) == nullptr; });
}

bool remote_shards::can_read(const link::peer& owner, std::size_t request_bytes) const {
  if (!landing_ || owner.self.rails == 0 || lane() == nullptr ||
      request_bytes > remote_search::keys_max * directory::wire::key_bytes)
    return false;
  const std::lock_guard guard{lock_};
  const auto found = shards_.find(owner.self.inc);
  return found == shards_.end() || found->second.not_before == time_point{} ||
         found->second.not_before <= std::chrono::steady_clock::now();
}

rdma::read_lane* remote_shards::lane() const noexcept {
  rdma::read_lane* best = nullptr;
  for (const auto& each : lanes_) {
    if (each->how != rdma::read_lane::kind::rail ||
        (each->usable != nullptr && !each->usable->load(std::memory_order_relaxed)))
      continue;
    if (best == nullptr || each->outstanding_bytes.load(std::memory_order_relaxed) <
                               best->outstanding_bytes.load(std::memory_order_relaxed))
      best = each.get();
  }
  return best;
}

rdma::peer_endpoint remote_shards::endpoint_of(const link::peer& owner) const {
  return {owner.self.id, owner.self.inc,   owner.self.host,          owner.self.data_port,
          cluster_,      owner.self.rails, rdma::data_service::pool, owner.self.name};
}

directory::known_shard_ptr remote_shards::known(const incarnation& owner) const {
  const std::lock_guard guard{lock_};
  const auto found = shards_.find(owner);
  return found == shards_.end() ? nullptr : found->second.known;
}

void remote_shards::learn(const incarnation& owner, directory::known_shard_ptr shard) {
  const std::lock_guard guard{lock_};
  shards_[owner].known = std::move(shard);
}

void remote_shards::failed(const incarnation& owner, time_point now) {
  const std::lock_guard guard{lock_};
  shards_[owner].not_before = now + asked_after_failure;
}

void remote_shards::count(std::uint64_t reads, bool answered) noexcept {
  counters_.shard_reads.fetch_add(reads, std::memory_order_relaxed);
  auto& of = answered ? counters_.lookups_read : counters_.lookups_asked_after_all;
  of.fetch_add(1, std::memory_order_relaxed);
}

} // namespace peercache::client
