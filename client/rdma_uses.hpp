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

/// A sample of the pages that came by RDMA, for the eviction order of their owners: no CPU of
/// theirs took part in the READ, so nobody but the reader can tell them (client/session_actor.cpp
/// does, now and then). Which of the hits are taken follows no pattern, so that a batch which is
/// read again and again has each of its pages counted in time. Threads: any; those that are not
/// taken cost one atomic addition. Bound: `records_max`; what comes beyond is not told.
class rdma_uses {
public:
  static constexpr std::uint32_t sample_one_in = 8;
  static constexpr std::size_t records_max = 4096; ///< At most link::used_pages_max.

  /// A page of this holder was a hit.
  void add(const incarnation& holder, slot_id slot, generation gen);

  /// The pages of one holder, packed link::used_page.
  using of_holder = std::pair<incarnation, std::string>;
  /// Everything since the last call.
  std::vector<of_holder> take();

private:
  std::atomic<std::uint64_t> hits_{0};
  std::mutex lock_;
  std::vector<of_holder> uses_; ///< By lock_.
  std::size_t records_ = 0;     ///< By lock_; of all owners.
};

} // namespace peercache::client
