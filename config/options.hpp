#pragma once

#include "config/node_config.hpp"
#include "config/option_value.hpp"

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace peercache::config {

/// One configurable value. Everything users see of it is derived from this entry: its place in the
/// file, its environment variable, its flag, help, the generated file and the generated
/// documentation.
struct option {
  std::string_view name; ///< "pool.size"; one dot at most: the section and the key of the file.
  option_type type = option_type::text;
  option_value default_value;
  option_value min{}, max{}; ///< Inclusive bounds of numbers, sizes, durations and fractions; same
                             ///< alternative as the default.
  std::span<const std::string_view> choices{}; ///< The words of a choice.
  std::string_view meaning;                    ///< One sentence.
  std::string_view empty_means{}; ///< What an empty text stands for; none: "" is refused.
  std::optional<option_value> dev_default{}; ///< Default while `dev` is true.
  void (*store)(node_config&,
                const option_value&) = nullptr; ///< Puts a checked value into its field.

  bool bounded() const noexcept;
  std::string_view section() const noexcept; ///< "pool"; empty for a top-level option.
  std::string_view key() const noexcept;     ///< "size"
  std::string variable() const;              ///< "PEERCACHE_POOL_SIZE"
  std::string flag() const;                  ///< "--pool-size"
};

/// The table: every option exactly once, those without a section first, the options of a section
/// together. Threads: any; built at the first call.
const std::vector<option>& options();

const option* find_option(std::string_view name) noexcept;

/// " (did you mean `pool.size`?)", or nothing when no option has a name like this.
std::string name_hint(std::string_view name);

/// A hint for a mistyped flag ("--pool-sise"), among the flags of all options.
std::string flag_hint(std::string_view flag);

} // namespace peercache::config
