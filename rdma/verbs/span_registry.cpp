#include "rdma/verbs/span_registry.hpp"

#include "rdma/verbs/region_registry.hpp"

#include <algorithm>
#include <utility>

namespace peercache::rdma {

namespace {

bool overlap(std::span<const std::byte> one, std::span<const std::byte> other) noexcept {
  return one.data() < other.data() + other.size() && other.data() < one.data() + one.size();
}

} // namespace

result<void> span_registry::reserve(std::span<std::byte> memory, std::uint32_t chunks) {
  const std::lock_guard lock(mutex_);
  if (std::any_of(spans_.begin(), spans_.end(),
                  [&](const served_span& one) { return overlap(one.memory, memory); }))
    return {errc::refused, "this memory, or a part of it, is registered already"};
  if (chunks > chunks_max_ - chunks_)
    return {errc::refused, "the memory has too many chunks; register less of it, or larger chunks"};
  chunks_ += chunks;
  spans_.push_back({memory, {}});
  return {};
}

void span_registry::give_up(const std::byte* begin, std::uint32_t chunks) {
  const std::lock_guard lock(mutex_);
  std::erase_if(spans_, [begin](const served_span& one) { return one.memory.data() == begin; });
  chunks_ -= chunks;
}

result<void> span_registry::add(std::span<std::byte> memory, device_memory* device) {
  const auto plan = plan_for(device_, memory, chunk_bytes_, use_);
  if (!plan)
    return plan.error();
  if (auto reserved = reserve(memory, plan->chunks()); !reserved)
    return reserved.error();
  std::vector<verbs::memory_region> regions;
  for (std::uint32_t index = 0; index < plan->chunks(); ++index) {
    auto made = verbs::memory_region::register_with(device_, plan->part(index), device, use_);
    if (!made) {
      give_up(memory.data(), plan->chunks());
      return made.error();
    }
    regions.push_back(std::move(*made));
  }
  {
    const std::lock_guard lock(mutex_);
    for (const auto& region : regions)
      fresh_.add(0, region, kind_);
    const auto mine = std::find_if(spans_.begin(), spans_.end(), [&](const served_span& one) {
      return one.memory.data() == memory.data();
    });
    mine->regions = std::move(regions);
    has_news_.store(true, std::memory_order_release);
  }
  tell_();
  return {};
}

bool span_registry::remove(const std::byte* begin) {
  // Declared before the lock, so that regions are deregistered after the lock is released.
  served_span dropped;
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(spans_.begin(), spans_.end(), [begin](const served_span& one) {
      return one.memory.data() == begin && !one.regions.empty();
    });
    if (found == spans_.end())
      return false;
    dropped = std::exchange(*found, {});
    spans_.erase(found);
    chunks_ -= static_cast<std::uint32_t>(dropped.regions.size());
    // A chunk that no reader was told of is only forgotten: its address may come again before the
    // next `take`, which removes before it adds.
    for (const auto& region : dropped.regions)
      if (!fresh_.remove(region.address()))
        gone_.push_back(region.address());
    has_news_.store(true, std::memory_order_release);
  }
  dropped.regions.clear();
  tell_();
  return true;
}

bool span_registry::take(served_chunks& announced) {
  const std::lock_guard lock(mutex_);
  has_news_.store(false, std::memory_order_relaxed);
  bool removed = false;
  for (const auto address : gone_)
    removed |= announced.remove(address);
  announced.add(fresh_);
  fresh_.clear();
  gone_.clear();
  return removed;
}

} // namespace peercache::rdma
