#pragma once

#include <span>
#include <string_view>

/// The examples of the command line: help, `peercache cheat` and the manual page take them from one
/// table. Threads: any; the table never changes.
namespace peercache::cli {

/// A command line that can be typed as it stands, and what it is for.
struct example {
  std::string_view command; ///< The command's words, such as "key explain".
  std::string_view rest;    ///< Arguments typed behind the command's words; may be empty.
  std::string_view meaning; ///< The purpose, in a few words without a full stop.
};

/// All examples, in the order of the help; each command that the help shows has one at least.
std::span<const example> examples();

} // namespace peercache::cli
