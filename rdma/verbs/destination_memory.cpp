#include "rdma/verbs/destination_memory.hpp"

#include <algorithm>

namespace peercache::rdma {
namespace {

using range = destination_memory::range;

/// The first range that ends behind the address `begin`; ranges are sorted.
auto first_behind(const std::vector<range>& ranges, const std::byte* begin) noexcept {
  return std::partition_point(ranges.begin(), ranges.end(),
                              [begin](const range& one) { return one.begin + one.bytes <= begin; });
}

} // namespace

result<void> destination_memory::insert(std::span<std::byte> memory,
                                        result<verbs::memory_region> made) {
  if (!made)
    return made.error();
  range added{memory.data(), memory.size(),
              std::make_shared<const verbs::memory_region>(std::move(*made))};
  std::lock_guard hold(lock_);
  auto next = *ranges_;
  const auto at = first_behind(next, memory.data());
  if (at != next.end() && at->begin < memory.data() + memory.size())
    return {errc::refused, "this memory, or a part of it, is registered already"};
  next.insert(at, std::move(added));
  ranges_ = std::make_shared<const std::vector<range>>(std::move(next));
  return {};
}

result<void> destination_memory::add(std::span<std::byte> memory, device_memory* device) {
  if (memory.empty())
    return {errc::invalid_argument, "there is nothing to register: the memory is empty"};
  return insert(memory, verbs::memory_region::register_with(device_, memory, device,
                                                            verbs::region_use::local_write));
}

bool destination_memory::remove(const std::byte* begin) {
  // Declared before the lock, so that the region is deregistered after the lock is released.
  snapshot dropped;
  std::lock_guard hold(lock_);
  auto next = *ranges_;
  if (std::erase_if(next, [begin](const range& one) { return one.begin == begin; }) == 0)
    return false;
  dropped = std::exchange(ranges_, std::make_shared<const std::vector<range>>(std::move(next)));
  return true;
}

destination_memory::snapshot destination_memory::current() const {
  std::lock_guard hold(lock_);
  return ranges_;
}

std::optional<std::uint32_t> destination_memory::key_of(const snapshot& ranges,
                                                        const std::byte* begin,
                                                        std::size_t bytes) noexcept {
  const auto found = first_behind(*ranges, begin);
  if (found == ranges->end() || found->begin > begin ||
      static_cast<std::size_t>(begin - found->begin) + bytes > found->bytes)
    return std::nullopt;
  return found->region->local_key();
}

} // namespace peercache::rdma
