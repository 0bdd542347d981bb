#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace peercache::config {

/// The least number of single-character insertions, deletions, replacements and swaps of neighbours
/// that turn `a` into `b` (no place is edited twice).
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The candidate that `word` was probably meant to be: the nearest one, if at most a third of the
/// word (and at least one character) is wrong. The first of equally near candidates wins.
std::optional<std::string> closest(std::string_view word, std::span<const std::string> candidates);

} // namespace peercache::config
