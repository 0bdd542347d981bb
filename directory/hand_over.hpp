#pragma once

#include "common/ids.hpp"
#include "directory/shard.hpp"
#include "discovery/hash_ring.hpp"

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace peercache::directory {

/// Gives a shard's records to the nodes that will own their keys, before its own node stops owning
/// any. Events in, orders out: whoever drives it sends the orders and says what became of them.
///
/// Threads: none; the owner serializes. No I/O; time is an argument. Bounds: `in_flight_max` orders
/// on their way; ends at `until` with whatever is done. A record that does not arrive costs nothing
/// but time: its producer publishes it again when it learns of the new view.
class hand_over {
public:
  using time_point = std::chrono::steady_clock::time_point;

  struct options {
    node_id self;
    std::uint32_t replicas = 2;
    /// Records of this process are left out: its pages go with it. Zero: none are.
    incarnation leaving;
    time_point until{};
    std::uint32_t in_flight_max = 4;
    std::uint32_t batch_records = 512;
    std::uint32_t places_per_step = 4096; ///< Of the shard, walked at once.
  };

  /// A batch for one of the new owners (directory/wire.hpp).
  struct order {
    node_id to;
    std::string records;
  };

  /// @param before, after the rings with this node and without it
  hand_over(const options& opts, discovery::hash_ring before, discovery::hash_ring after)
      : options_(opts), before_(std::move(before)), after_(std::move(after)) {}

  /// What to send now. Call it at first, and after each `settled`.
  std::vector<order> next(const shard& source, time_point now);
  /// An order was answered, or failed; so many records of it were taken.
  void settled(std::uint64_t taken);
  bool done() const noexcept { return walked_ && ready_.empty() && in_flight_ == 0; }

  /// A withdrawal that came meanwhile, for those who may have been given its records already.
  std::vector<order> forward(std::string_view withdrawals) const;

  std::uint64_t records() const noexcept { return taken_; }

private:
  void walk(const shard& source);
  void close_batches();

  options options_;
  discovery::hash_ring before_;
  discovery::hash_ring after_;
  std::map<node_id, std::string> batches_; ///< Not full yet.
  std::deque<order> ready_;
  std::uint32_t place_ = 0;
  std::uint32_t in_flight_ = 0;
  std::uint64_t taken_ = 0;
  bool walked_ = false;
};

} // namespace peercache::directory
