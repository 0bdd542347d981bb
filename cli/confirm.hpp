#pragma once

#include "common/result.hpp"

#include <string>

namespace CLI {
class App;
} // namespace CLI

namespace peercache::cli {

struct global_options;

/// The options of a command whose effect cannot be taken back.
struct confirmation {
  bool yes = false;     ///< --yes: do not ask.
  bool dry_run = false; ///< --dry-run: only say what would be done.
};

/// Adds --yes and --dry-run. Lifetime: `into` lives until the app has parsed.
void add_confirmation(CLI::App& command, confirmation& into);

/// Whether to go on: by --yes, or by a person who types "yes" at a terminal. With --dry-run `what`
/// is printed as the command's answer, and false is returned.
/// @param what A sentence that says what will be done and to whom.
/// Errors: `invalid_argument` without a terminal to ask at; `refused` when the person says no.
/// Threads: one; blocks until a line was typed.
result<bool> confirmed(const global_options& globals, const confirmation& given,
                       const std::string& what);

} // namespace peercache::cli
