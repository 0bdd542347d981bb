#pragma once

#include "client/lookup/lookup_carrier.hpp"
#include "client/lookup/lookup_channels.hpp"
#include "client/notes/counters.hpp"
#include "client/read/landing_stock.hpp"
#include "client/read/read_plane.hpp"
#include "common/result.hpp"
#include "directory/remote_search.hpp"
#include "discovery/view.hpp"
#include "link/protocol/topology.hpp"
#include "rdma/read_lane.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>

namespace peercache::client {

/// The shards of other hosts, as far as this client READs them over its rails: what it knows of
/// each of them, and the memory in which READs land. Without rails, or without memory to land in,
/// no shard is read.
///
/// Threads: any. Lifetime: lanes and counters outlive this object, which outlives its look-ups.
/// Bounds: one `known_shard` for each member of the view, and `known_lines::lines_max` lines of all
/// shards (1.6 MB); `searches_max` look-ups at a time, others ask.
class remote_shards {
public:
  using time_point = lookup_carrier::time_point;
  static constexpr std::uint32_t searches_max = 32;

  /// @param lanes by which shards are READ, as far as they are rails
  /// @param landing of `searches_max` buffers of `landing_bytes`; null: no shard is read
  remote_shards(std::span<const std::unique_ptr<rdma::read_lane>> lanes,
                std::unique_ptr<landing_stock> landing, std::string cluster, counters& totals);
  static constexpr std::size_t landing_bytes =
      directory::remote_search::units_max * directory::shard_unit_bytes;
  /// Memory that is registered with the plane's rails; null without rails, or when that fails.
  static std::unique_ptr<landing_stock> landing_for(read_plane& plane);

  /// If the view is another than in the last call, forgets shards of processes that it lacks.
  void follow(const discovery::view& view);
  /// Whether a question of `request_bytes` to the owner can be answered by READs now.
  bool can_read(const link::peer& owner, std::size_t request_bytes) const;

  /// What the look-ups that READ shards use.
  landing_stock::lease take_memory() noexcept { return landing_->take(); }
  /// The rail that is used least; null: none can be used now.
  rdma::read_lane* lane() const noexcept;
  rdma::peer_endpoint endpoint_of(const link::peer& owner) const;
  directory::known_shard_ptr known(const incarnation& owner) const;
  void learn(const incarnation& owner, directory::known_shard_ptr shard);
  directory::known_lines& lines() noexcept { return lines_; }
  /// Notes that READs of the owner's shard failed: for a while its node is asked.
  void failed(const incarnation& owner, time_point now);
  void count(std::uint64_t reads, bool answered) noexcept;

private:
  struct entry {
    directory::known_shard_ptr known;
    time_point not_before{}; ///< The shard is not read before.
  };

  const std::span<const std::unique_ptr<rdma::read_lane>> lanes_;
  const std::string cluster_;
  counters& counters_;
  const std::unique_ptr<landing_stock> landing_; ///< Null: no shard is read.
  directory::known_lines lines_;
  mutable std::mutex lock_;
  std::unordered_map<incarnation, entry> shards_; ///< Guarded by lock_.
  discovery::view_stamp followed_;                ///< Guarded by lock_.
};

} // namespace peercache::client
