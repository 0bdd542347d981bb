#include "config/units.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <limits>
#include <optional>

namespace peercache::config {
namespace {

/// A text such as "64GiB", cut into its number and its unit in lower case.
struct quantity {
  std::uint64_t number = 0;
  std::string unit;
};

result<quantity> cut(std::string_view text, std::string_view kind, std::string_view examples) {
  quantity out;
  const char* end = text.data() + text.size();
  auto [rest, status] = std::from_chars(text.data(), end, out.number);
  if (status == std::errc::result_out_of_range)
    return {errc::invalid_argument, '"' + std::string(text) + "\" is too large"};
  if (status != std::errc{})
    return {errc::invalid_argument, '"' + std::string(text) + "\" is not a " + std::string(kind) +
                                        ": write a whole number and a unit, such as " +
                                        std::string(examples)};
  while (rest != end && *rest == ' ')
    ++rest;
  for (; rest != end; ++rest)
    out.unit += static_cast<char>(std::tolower(static_cast<unsigned char>(*rest)));
  return out;
}

/// The number of bytes of a unit, or nothing for a word that is not a unit.
std::optional<std::uint64_t> bytes_per(std::string_view unit) {
  if (unit.ends_with('b'))
    unit.remove_suffix(1);
  if (unit.empty())
    return 1;
  const auto power = std::string_view("kmgtpe").find(unit.front());
  const bool binary = unit.size() == 2 && unit[1] == 'i';
  if (power == std::string_view::npos || (unit.size() > 1 && !binary))
    return std::nullopt;
  std::uint64_t bytes = 1;
  for (std::size_t i = 0; i <= power; ++i)
    bytes *= binary ? 1024 : 1000;
  return bytes;
}

std::optional<std::uint64_t> ms_per(std::string_view unit) {
  if (unit == "ms")
    return 1;
  if (unit == "s")
    return 1000;
  if (unit == "m" || unit == "min")
    return 60'000;
  if (unit == "h")
    return 3'600'000;
  return std::nullopt;
}

} // namespace

result<std::uint64_t> parse_size(std::string_view text) {
  auto parts = cut(text, "size", "64GiB (1024-based), 500MB (1000-based) or 4096 (bytes)");
  if (!parts)
    return parts.error();
  const auto unit = bytes_per(parts->unit);
  if (!unit)
    return {errc::invalid_argument,
            '"' + std::string(text) +
                "\" has an unknown unit: use B, k, M, G, T, P, E (1000-based) "
                "or KiB, MiB, GiB, TiB, PiB, EiB (1024-based)"};
  if (parts->number > std::numeric_limits<std::uint64_t>::max() / *unit)
    return {errc::invalid_argument, '"' + std::string(text) + "\" is too large"};
  return parts->number * *unit;
}

std::string format_size(std::uint64_t bytes) {
  static constexpr std::array<std::string_view, 7> units{"B",   "KiB", "MiB", "GiB",
                                                         "TiB", "PiB", "EiB"};
  std::size_t power = 0;
  while (bytes != 0 && bytes % 1024 == 0 && power + 1 < units.size()) {
    bytes /= 1024;
    ++power;
  }
  return std::to_string(bytes) + std::string(units[power]);
}

result<std::chrono::milliseconds> parse_duration(std::string_view text) {
  auto parts = cut(text, "duration", "500ms, 2s, 5m or 1h");
  if (!parts)
    return parts.error();
  const auto unit = ms_per(parts->unit);
  if (!unit)
    return {errc::invalid_argument,
            '"' + std::string(text) + "\" has no known unit: write 500ms, 2s, 5m or 1h"};
  constexpr auto most = static_cast<std::uint64_t>(std::chrono::milliseconds::max().count());
  if (parts->number > most / *unit)
    return {errc::invalid_argument, '"' + std::string(text) + "\" is too large"};
  return std::chrono::milliseconds(parts->number * *unit);
}

std::string format_duration(std::chrono::milliseconds value) {
  if (value.count() % 1000 == 0 && value.count() != 0)
    return std::to_string(value.count() / 1000) + "s";
  return std::to_string(value.count()) + "ms";
}

} // namespace peercache::config
