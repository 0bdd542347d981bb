#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace peercache::copies {

/// Counts what memcpy and memmove of this program move out of this memory and into it: the linker
/// wraps them (tests/CMakeLists.txt). A call replaces the memory that was watched before. Threads:
/// one that calls this, while nobody copies.
void watch(std::span<const std::byte> one, std::span<const std::byte> other = {});

/// Bytes that were copied since the last call of this function. Threads: any.
std::uint64_t take_copied_bytes();

} // namespace peercache::copies
