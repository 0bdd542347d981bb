#include "cli/confirm.hpp"

#include "cli/command.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <iostream>
#include <unistd.h>

namespace peercache::cli {

void add_confirmation(CLI::App& command, confirmation& into) {
  command.add_flag("--yes", into.yes, "Do not ask");
  command.add_flag("--dry-run", into.dry_run, "Say what would be done, and do nothing");
}

result<bool> confirmed(const global_options& globals, const confirmation& given,
                       const std::string& what) {
  if (given.dry_run) {
    print(globals, {{"dry_run", true}, {"would", what}}, what + " Nothing was done (--dry-run).\n");
    return false;
  }
  if (given.yes)
    return true;
  if (::isatty(STDIN_FILENO) == 0)
    return {errc::invalid_argument, what + " Without a terminal to ask at this takes --yes"};
  fmt::print(stderr, "{} Type yes to go on: ", what);
  std::string answer;
  std::getline(std::cin, answer);
  if (answer != "yes")
    return {errc::refused, "nothing was done"};
  return true;
}

} // namespace peercache::cli
