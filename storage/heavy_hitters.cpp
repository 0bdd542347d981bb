#include "storage/heavy_hitters.hpp"

#include <algorithm>

namespace peercache::storage {

void heavy_hitters::add(const page_key& key, std::uint64_t bytes, std::uint64_t reads) {
  if (const auto known = places_.find(key); known != places_.end()) {
    auto& has = counters_[known->second];
    has.reads += reads;
    has.bytes = bytes;
    return;
  }
  if (counters_.size() < counters_max) {
    places_.emplace(key, counters_.size());
    counters_.push_back({key, bytes, reads, 0});
    return;
  }
  auto& least =
      *std::min_element(counters_.begin(), counters_.end(),
                        [](const counter& a, const counter& b) { return a.reads < b.reads; });
  places_.erase(least.key);
  places_.emplace(key, static_cast<std::size_t>(&least - counters_.data()));
  least = {key, bytes, least.reads + reads, least.reads};
}

void heavy_hitters::clear() {
  counters_.clear();
  places_.clear();
}

} // namespace peercache::storage
