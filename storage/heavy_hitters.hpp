#pragma once

#include "common/page_key.hpp"

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace peercache::storage {

/// The most-read pages of a stream of reads, in bounded memory: the sketch SpaceSaving (Metwally,
/// Agrawal, El Abbadi: Efficient Computation of Frequent and Top-k Elements in Data Streams, ICDT
/// 2005). A page without a counter takes over the counter of the page with the fewest reads, with
/// its count. So `reads` is never too low and by at most `over` too high, and each page with more
/// than 1/`counters_max` of all reads has a counter. Threads: one.
class heavy_hitters {
public:
  static constexpr std::size_t counters_max = 256;

  struct counter {
    page_key key;
    std::uint64_t bytes = 0; ///< Length of the page when it was last read.
    std::uint64_t reads = 0;
    std::uint64_t over = 0; ///< At most this many of `reads` are reads of other pages.
  };

  void add(const page_key& key, std::uint64_t bytes, std::uint64_t reads);
  void clear();
  /// The counters, in no order.
  const std::vector<counter>& counters() const noexcept { return counters_; }

private:
  std::vector<counter> counters_;
  /// The index in `counters_` of each page's counter.
  std::unordered_map<page_key, std::size_t> places_;
};

} // namespace peercache::storage
