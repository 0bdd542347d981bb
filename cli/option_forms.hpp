#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

/// Functions that add options in the forms that the configuration has too (docs/configuration.md):
/// the same units, the same words for what is wrong, and a help line that tells form, bounds and
/// default.
/// Threads: none. Lifetime: the variable of an option is written while the app parses; the value it
/// has before is the default.
namespace peercache::cli {

/// The bounds of a numeric option; `most` fits into the variable that the number goes to.
struct number_bounds {
  std::uint64_t least = 0;
  std::uint64_t most = 0;
};
CLI::Option* add_number(CLI::App& app, const std::string& flag, number_bounds bounds,
                        std::uint64_t default_value, std::function<void(std::uint64_t)> store,
                        const std::string& meaning);

/// Adds an option that takes a whole number within bounds.
template <std::unsigned_integral Number>
CLI::Option* add_number(CLI::App& app, const std::string& flag, Number& value, number_bounds bounds,
                        const std::string& meaning) {
  return add_number(
      app, flag, bounds, value,
      [&value](std::uint64_t given) { value = static_cast<Number>(given); }, meaning);
}

/// Adds an option that takes bytes, such as "16KiB".
CLI::Option* add_size(CLI::App& app, const std::string& flag, std::uint64_t& bytes,
                      const std::string& meaning);

/// Adds an option that takes a time with its unit, such as "500ms" or "2s".
CLI::Option* add_duration(CLI::App& app, const std::string& flag, std::chrono::milliseconds& value,
                          std::chrono::milliseconds least, std::chrono::milliseconds most,
                          const std::string& meaning);

CLI::Option* add_choice(CLI::App& app, const std::string& flag,
                        std::span<const std::string_view> words, std::size_t default_index,
                        std::function<void(std::size_t)> store, const std::string& meaning);

/// Adds an option that takes one of a few words; the words stand in the order of the enumeration.
template <class Enum>
requires std::is_enum_v<Enum> CLI::Option* add_choice(CLI::App& app, const std::string& flag,
                                                      Enum& value,
                                                      std::span<const std::string_view> words,
                                                      const std::string& meaning) {
  return add_choice(
      app, flag, words, static_cast<std::size_t>(value),
      [&value](std::size_t index) { value = static_cast<Enum>(index); }, meaning);
}

} // namespace peercache::cli
