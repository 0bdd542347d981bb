#pragma once

#include "handoff/kv_layout.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace peercache::handoff {

/// Returns the memory of a worker's own layout as pieces that do not overlap, by address. Buffers
/// that overlap, or that the engine names several times, become one piece; buffers that only touch
/// stay apart, because each allocation must be registered by itself.
/// @pre `layout` is checked, and is this process's own
std::vector<std::span<std::byte>> distinct_memory(const kv_layout& layout);

} // namespace peercache::handoff
