#pragma once

#include "config/node_config.hpp"
#include "config/option_value.hpp"

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace peercache::config {

/// A configurable value. Everything that users see of an option is derived from this entry: its
/// place in the configuration file, its environment variable, its flag, help, the generated file
/// and the generated documentation.
struct option {
  /// The option's name, "pool.size"; at most one dot, between the section and the key of the file.
  std::string_view name;
  option_type type = option_type::text;
  option_value default_value;
  /// Inclusive bounds of numbers, sizes, durations and fractions; both are the same alternative of
  /// the variant as the default.
  option_value min{}, max{};
  /// The words that a choice may be; empty for other types.
  std::span<const std::string_view> choices{};
  /// The option's purpose in one sentence; help and documents show it.
  std::string_view meaning;
  /// The meaning of an empty value; if this field is empty, an empty value is refused.
  std::string_view empty_means{};
  std::optional<option_value> dev_default{}; ///< The default while the option `dev` is true.
  void (*store)(node_config&,
                /// Puts a checked value of the option into its field.
                const option_value&) = nullptr;

  bool bounded() const noexcept;
  /// The part of the name before the dot, "pool"; empty for a top-level option.
  std::string_view section() const noexcept;
  std::string_view key() const noexcept; ///< The part of the name behind the dot: "size".
  std::string variable() const;          ///< The environment variable: "PEERCACHE_POOL_SIZE".
  std::string flag() const;              ///< The flag of the command line: "--pool-size".
};

/// The option table: every option exactly once, options without a section first, the options of a
/// section together. Threads: any; built at the first call.
const std::vector<option>& options();

const option* find_option(std::string_view name) noexcept;

/// A hint for a mistyped option name: " (did you mean `pool.size`?)", or nothing when no option has
/// a name like this.
std::string name_hint(std::string_view name);

/// A hint for a mistyped flag ("--pool-sise") that names the nearest flag of all options.
std::string flag_hint(std::string_view flag);

} // namespace peercache::config
