#pragma once

#include "common/result.hpp"

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace peercache::config {

/// Bytes as people write them: a whole number and a unit, in any case, a space between them
/// allowed. Decimal units (k, kB, M, MB, …) count in 1000, binary ones (Ki, KiB, Mi, MiB, …) in
/// 1024; no unit means bytes. Errors: anything else, and what does not fit into 64 bits; the
/// message says what would be right.
result<std::uint64_t> parse_size(std::string_view text);

/// The shortest exact form in binary units: 1073741824 is "1GiB", 1000 is "1000B". `parse_size`
/// reads it back.
std::string format_size(std::uint64_t bytes);

/// A whole number with the unit ms, s, m (or min) or h. A bare number is refused, because nobody
/// can tell what it counts.
result<std::chrono::milliseconds> parse_duration(std::string_view text);

/// "2s" for whole seconds, else "1500ms". `parse_duration` reads it back.
std::string format_duration(std::chrono::milliseconds value);

} // namespace peercache::config
