#include "handoff/distinct_memory.hpp"

#include <algorithm>
#include <cstdint>

namespace peercache::handoff {
namespace {

struct extent {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

std::vector<extent> extents_of(const kv_layout& layout) {
  std::vector<extent> all;
  const auto add = [&all](const kv_buffer& buffer) {
    all.push_back({buffer.address, buffer.address + buffer.length_bytes});
  };
  std::for_each(layout.buffers.begin(), layout.buffers.end(), add);
  std::for_each(layout.aux.begin(), layout.aux.end(), add);
  for (const auto& component : layout.states)
    for (const auto& tensor : component.tensors)
      add(tensor.buffer);
  return all;
}

} // namespace

std::vector<std::span<std::byte>> distinct_memory(const kv_layout& layout) {
  auto all = extents_of(layout);
  std::sort(all.begin(), all.end(),
            [](const extent& one, const extent& other) { return one.begin < other.begin; });
  std::vector<extent> merged;
  for (const auto& each : all)
    if (merged.empty() || each.begin >= merged.back().end)
      merged.push_back(each);
    else
      merged.back().end = std::max(merged.back().end, each.end);
  std::vector<std::span<std::byte>> memory;
  memory.reserve(merged.size());
  for (const auto& each : merged)
    memory.emplace_back(
        // NOLINTNEXTLINE(performance-no-int-to-ptr): the engine tells its addresses as numbers.
        reinterpret_cast<std::byte*>(each.begin), each.end - each.begin);
  return memory;
}

} // namespace peercache::handoff
