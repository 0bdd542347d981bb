#pragma once

#include "common/result.hpp"

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace peercache::config {

/// Reads bytes as people write them: a whole number and a unit, in any case, a space between them
/// allowed. Decimal units (k, kB, M, MB, …) count in 1000, binary ones (Ki, KiB, Mi, MiB, …) in
/// 1024; no unit means bytes. Errors: any other text, and a size that does not fit into 64 bits;
/// the message says what would be right.
result<std::uint64_t> parse_size(std::string_view text);

/// Writes bytes in the shortest exact form in binary units, which `parse_size` reads back:
/// 1073741824 is "1GiB", 1000 is "1000B".
std::string format_size(std::uint64_t bytes);

/// Reads a whole number with the unit ms, s, m (or min) or h. Errors: a bare number is refused,
/// because nobody can tell what it counts.
result<std::chrono::milliseconds> parse_duration(std::string_view text);

/// Writes a duration as "2s" for whole seconds, else as "1500ms"; `parse_duration` reads both back.
std::string format_duration(std::chrono::milliseconds value);

} // namespace peercache::config
