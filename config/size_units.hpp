/// Units, in bytes, for options that are sizes.
#pragma once

#include <cstdint>

namespace peercache::config {

constexpr std::uint64_t mib = 1ull << 20;
constexpr std::uint64_t gib = 1ull << 30;
constexpr std::uint64_t tib = 1ull << 40;

} // namespace peercache::config
