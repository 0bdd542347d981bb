#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace peercache::copies {

/// From now on counts the bytes that memcpy and memmove of this program copy out of or into this
/// memory, in place of memory that was watched before. The linker wraps both functions
/// (tests/CMakeLists.txt). Threads: any, while no thread copies.
void watch(std::span<const std::byte> one, std::span<const std::byte> other = {});

/// Returns how many bytes were copied since the last call of this function. Threads: any.
std::uint64_t take_copied_bytes();

} // namespace peercache::copies
