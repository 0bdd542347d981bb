#pragma once

#include "common/ids.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace peercache::client {

/// A sample of the pages that came by RDMA, for the eviction order of their holders. No CPU of the
/// holder took part in the READ, so only the reader can report it (client/session/session_actor.cpp
/// does, now and then). The hits are sampled without a pattern, so that a batch which is read again
/// and again has each of its pages counted in time. Threads: any; a hit that is not sampled costs
/// one atomic addition. Bound: `records_max`; further hits are not reported.
class rdma_uses {
public:
  static constexpr std::uint32_t sample_one_in = 8;
  static constexpr std::size_t records_max = 4096; ///< As many records as fit into one message.

  /// Notes that a page of this holder was a hit.
  void add(const incarnation& holder, slot_id slot, generation gen);

  /// The pages of one holder, packed link::used_page.
  using of_holder = std::pair<incarnation, std::string>;
  /// Takes out the records that were added since the last call, by holder.
  std::vector<of_holder> take();

private:
  std::atomic<std::uint64_t> hits_{0};
  std::mutex lock_;
  std::vector<of_holder> uses_; ///< Guarded by lock_.
  std::size_t records_ = 0;     ///< Guarded by lock_. Records of all holders.
};

} // namespace peercache::client
