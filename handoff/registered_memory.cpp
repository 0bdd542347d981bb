#include "handoff/registered_memory.hpp"

#include <iterator>

namespace peercache::handoff {

result<void> registered_memory::add(const memory_range& memory) {
  if (!memory.possible())
    return {errc::invalid_argument, "there is nothing to register: the memory has no bytes"};
  if (overlaps(memory))
    return {errc::refused, "this memory, or a part of it, is registered already"};
  ranges_.emplace(memory.address, memory.bytes);
  return {};
}

std::optional<memory_range> registered_memory::remove(std::uint64_t address) {
  const auto found = ranges_.find(address);
  if (found == ranges_.end())
    return std::nullopt;
  const memory_range removed{found->first, found->second};
  ranges_.erase(found);
  return removed;
}

bool registered_memory::overlaps(const memory_range& memory) const noexcept {
  if (!memory.possible())
    return false;
  // Ranges do not overlap each other. So if any range overlaps the memory, the last range that
  // begins before the memory's end does.
  const auto behind = ranges_.lower_bound(memory.address + memory.bytes);
  return behind != ranges_.begin() &&
         memory_range{std::prev(behind)->first, std::prev(behind)->second}.overlaps(memory);
}

bool registered_memory::covers(const memory_range& memory) const noexcept {
  const auto behind = ranges_.upper_bound(memory.address);
  if (behind == ranges_.begin())
    return false;
  const auto& [address, bytes] = *std::prev(behind);
  return memory.address + memory.bytes <= address + bytes;
}

} // namespace peercache::handoff
