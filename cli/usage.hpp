#pragma once

#include "common/result.hpp"

#include <vector>

namespace CLI {
class App;
} // namespace CLI

namespace peercache::cli {

/// The subcommands of `app`, in the order of the help; hidden ones are left out. Lifetime: that of
/// the app.
std::vector<const CLI::App*> shown_commands(const CLI::App& app);

/// Parses the words of a command line, for every program of the project. Faults that CLI11 finds
/// are told in the project's own words: the first unknown word, the nearest known one, and where
/// help is.
///
/// Returns true when the callbacks have run and the program should go on; false when help or a
/// version was printed and the program should end with success. Errors: `invalid_argument`.
/// Threads: none.
result<bool> parse_words(CLI::App& app, int argc, const char* const* argv);

} // namespace peercache::cli
