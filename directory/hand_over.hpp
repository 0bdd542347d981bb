#pragma once

#include "common/assert.hpp"
#include "common/ids.hpp"
#include "common/limits.hpp"
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

/// What a hand-over came to.
struct handed_over {
  std::uint64_t given = 0; ///< Records that new owners took.
  /// Records that were not sent in time, or that new owners did not answer for or refused. An
  /// upper bound: of records that were not looked at in time, some may need no other owner.
  std::uint64_t left = 0;
  bool operator==(const handed_over&) const = default;
};

/// Gives a shard's records to the nodes that will own their keys, before the shard's node stops
/// owning any. Events in, orders out: the driver sends the orders and reports what became of them.
///
/// Threads: none; the owner serializes. No I/O; time is an argument. Bounds: `in_flight_max` orders
/// are on their way at once; the hand-over ends at `until` even if records are left, which it
/// counts. A record that does not arrive costs only time: its producer publishes it again when it
/// learns of the new view.
class hand_over {
public:
  using time_point = std::chrono::steady_clock::time_point;

  struct options {
    node_id self;
    std::uint32_t replicas = limits::directory_replicas_default;
    /// Records of this process are not handed over, because its pages go when it ends. Zero: the
    /// records of all processes are handed over.
    incarnation leaving;
    time_point until{};
    std::uint32_t in_flight_max = 4;
    std::uint32_t batch_records = 512;
    std::uint32_t places_per_step = 4096; ///< Places of the shard that one step walks.
  };

  /// A batch of records for one of the new owners (directory/wire.hpp).
  struct order {
    node_id to;
    std::string records;
  };

  /// @param before the hash ring with this node @param after the hash ring without this node
  hand_over(const options& opts, discovery::hash_ring before, discovery::hash_ring after)
      : options_(opts), before_(std::move(before)), after_(std::move(after)), walked_(!owes()) {
    PEERCACHE_ASSERT(opts.replicas >= 1 && opts.replicas <= discovery::hash_ring::replicas_max);
    PEERCACHE_ASSERT(opts.in_flight_max > 0 && opts.places_per_step > 0);
    PEERCACHE_ASSERT(opts.batch_records > 0 && opts.batch_records <= limits::batch_pages_max);
  }

  /// Returns the batches of records to send now. Call at the start of the hand-over, and again
  /// after each `answered` and `failed`.
  std::vector<order> next(const shard& source, time_point now);
  /// Leaves out the records of the process `leaving` that are in no batch yet, and ends at `until`,
  /// from now on.
  void go_on_leaving(const incarnation& leaving, time_point until) noexcept {
    options_.leaving = leaving;
    options_.until = until;
  }
  /// Call when an order was answered, with a `publish_outcome` for each of its records. Returns how
  /// many records the new owner took.
  std::uint64_t answered(std::string_view outcomes);
  /// Call when an order of this many records has failed.
  void failed(std::uint64_t records);
  bool done() const noexcept { return walked_ && ready_.empty() && in_flight_ == 0; }

  /// Returns orders that pass withdrawals on to the new owners to which this hand-over may have
  /// given the withdrawn records already.
  std::vector<order> forward(std::string_view withdrawals) const;

  const handed_over& so_far() const noexcept { return counts_; }

private:
  /// Whether any key gets another owner. With fewer nodes than a key has owners, each of them owns
  /// every key already.
  bool owes() const noexcept {
    return after_.members() >= options_.replicas &&
           before_.incarnation_of(options_.self) != incarnation{};
  }
  void walk(const shard& source);
  void close_batches();
  void give_up(const shard& source);

  options options_;
  discovery::hash_ring before_;
  discovery::hash_ring after_;
  std::map<node_id, std::string> batches_; ///< Batches, by new owner, that are not full yet.
  std::deque<order> ready_;
  std::uint32_t place_ = 0;
  std::uint32_t in_flight_ = 0;
  std::uint64_t seen_ = 0; ///< Records of the shard that the walk has passed.
  handed_over counts_;
  bool walked_; ///< Made from `before_` and `after_`, which therefore stand above it.
};

} // namespace peercache::directory
