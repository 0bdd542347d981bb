#pragma once

#include "actors/overlap/overlap.hpp"
#include "directory/page_location.hpp"
#include "discovery/hash_ring.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace peercache::actors {

/// One question of a router without its messages: which owner is asked for which keys, and what has
/// been answered.
///
/// One owner of each key is asked first: this node's own shard if it is an owner, because other
/// shards cost a message. If that owner fails, or finds nothing because it may not have been told
/// yet, another owner is asked. A key that no owner answers for counts as a page that nobody has: a
/// miss is allowed, and so is an overlap that is too short.
///
/// Threads: none. No clock, no I/O. Bounds: `owners_max` owners of a key are asked.
class overlap_search {
public:
  static constexpr std::uint8_t owners_max = 2;

  /// The question to one owner about some of the keys.
  struct share {
    node_id owner;
    std::string request; ///< The keys that the owner is asked for, packed.
    std::vector<std::uint32_t> indices;
  };
  using can_ask = std::function<bool(node_id)>;
  using is_member = std::function<bool(const directory::page_location&)>;

  overlap_search() = default;
  /// @param own this node
  overlap_search(overlap_question question, node_id own);

  /// Returns the questions to ask now, of at most `batch_pages_max` keys each; none when every key
  /// is being asked for, or has an answer, or no owner that is left can be asked.
  std::vector<share> next(const discovery::hash_ring& ring, std::uint32_t replicas,
                          const can_ask& linked);
  /// Takes an owner's answer; a malformed one counts as none. Locations of processes that are not
  /// in the view are left out.
  void answered(const share& asked, std::string_view answer, const is_member& in_view);
  /// Notes that an owner has not answered.
  void failed(const share& asked);
  /// Takes what the engines of a node hold on their GPUs, in place of what was known of that node.
  void on_gpu(node_id node, link::gpu_run run);

  const overlap_question& question() const noexcept { return question_; }
  /// The nodes' overlaps by what has been answered so far.
  std::vector<node_overlap> overlaps() const {
    return overlaps_of(holders_, question_.spaces, gpu_);
  }

private:
  overlap_question question_;
  node_id own_;
  std::vector<page_holders> holders_;
  std::vector<gpu_overlap> gpu_;
  /// For each key, how many of its owners were tried, including owners without a connection.
  std::vector<std::uint8_t> asked_;
  std::vector<std::uint32_t> open_; ///< Keys that are to be asked for next.
};

} // namespace peercache::actors
