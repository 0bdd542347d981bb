#pragma once

#include "common/result.hpp"

#include <cstddef>
#include <string_view>

// Checks of a configuration file that run before toml++ parses it.
namespace peercache::config {

/// An error at a place of the file: "path:line:column: what".
error toml_fault(std::string_view path, std::size_t line, std::size_t column,
                 std::string_view what);

/// Refuses text that no configuration needs and on which toml++ 3.3 aborts, overflows the stack or
/// is undefined: section headers without a name, braces, names of many parts, lists in lists, texts
/// of several lines, and bytes that are not ASCII outside of texts and comments. Text that passes
/// may still not be TOML, which the parser finds.
result<void> check_toml_text(std::string_view content, std::string_view path);

} // namespace peercache::config
