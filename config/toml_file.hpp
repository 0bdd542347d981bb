#pragma once

#include "common/result.hpp"
#include "config/option_value.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace peercache::config {

/// A `key = value` of a TOML document.
struct toml_entry {
  /// The key as a dotted path; a part that itself has a dot in it stands in quotes.
  std::string name;
  toml_value value;
  std::uint32_t line = 0;   ///< The key's line, from 1.
  std::uint32_t column = 0; ///< The key's column, from 1.
};

/// Reads all entries of a document in their order; a table without entries is one entry of
/// `foreign_toml{"a table"}`. Errors: faults of syntax, as "<path>:<line>:<column>: <what>".
result<std::vector<toml_entry>> read_toml(std::string_view content, std::string_view path);

} // namespace peercache::config
