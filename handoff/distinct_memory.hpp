#pragma once

#include "handoff/kv_layout.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace peercache::handoff {

/// The memory of a worker's own layout, as pieces that do not overlap, by address: buffers that
/// engines name several times, or that lie within others, are in it once. Buffers that only touch
/// stay apart, because each allocation must be registered by itself.
/// @pre `layout` is checked, and is this process's own
std::vector<std::span<std::byte>> distinct_memory(const kv_layout& layout);

} // namespace peercache::handoff
