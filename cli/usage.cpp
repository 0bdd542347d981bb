#include "cli/usage.hpp"

#include "cli/output.hpp"
#include "config/suggestion.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fmt/format.h>
#include <optional>
#include <sstream>

namespace peercache::cli {

std::vector<const CLI::App*> shown_commands(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* command) { return !command->get_group().empty(); });
}

namespace {

using words = std::vector<std::string>;

/// The words with which a user calls the command, such as "peercache key".
std::string path_of(const CLI::App& command) {
  const auto* parent = command.get_parent();
  return (parent != nullptr ? path_of(*parent) + " " : "") + command.get_name();
}

/// The innermost command that the words of the command line named.
const CLI::App& reached(const CLI::App& app) {
  auto named = app.get_subcommands();
  return named.empty() ? app : reached(*named.back());
}

words options_of(const CLI::App& command) {
  words names;
  for (const auto* option : command.get_options())
    for (const auto& name : option->get_lnames())
      names.push_back("--" + name);
  return names;
}

/// The options of a command and of the commands around it: all of these may stand behind the
/// command.
words options_at(const CLI::App& command) {
  auto names = options_of(command);
  if (const auto* parent = command.get_parent()) {
    auto more = options_at(*parent);
    names.insert(names.end(), more.begin(), more.end());
  }
  return names;
}

/// Appends the paths of all commands below `from` for which `has` returns true.
template <class Predicate>
void collect(const CLI::App& from, Predicate has, words& paths) {
  for (const auto* command : shown_commands(from)) {
    if (has(*command))
      paths.push_back("`" + path_of(*command) + "`");
    collect(*command, has, paths);
  }
}

/// The only known option that ends like `name`; nothing when none or several do. People forget the
/// section of an option ("--size").
std::optional<std::string> only_one_ending(const std::string& name, const words& known) {
  auto ending = name.substr(1); // "--size" gives "-size", which "--pool-size" ends with.
  auto ends = [&](const std::string& option) { return option.ends_with(ending); };
  auto found = std::find_if(known.begin(), known.end(), ends);
  bool unique = found != known.end() && std::find_if(found + 1, known.end(), ends) == known.end();
  return unique ? std::optional(*found) : std::nullopt;
}

std::string see_help(const CLI::App& command) {
  return fmt::format("`{} --help` lists what there is", path_of(command));
}

std::string about_option(const CLI::App& root, const CLI::App& at, const std::string& word) {
  auto name = word.substr(0, word.find('='));
  auto has = [&](const CLI::App& command) {
    auto own = options_of(command);
    return std::find(own.begin(), own.end(), name) != own.end();
  };
  words owners;
  if (has(at))
    owners.push_back("`" + path_of(at) + "`");
  else
    collect(root, has, owners);
  if (!owners.empty())
    return fmt::format("'{}' is an option of {} and stands behind it", name,
                       fmt::join(owners, ", "));
  auto known = options_at(at);
  auto meant = config::closest(name, known);
  if (!meant && name.starts_with("--"))
    meant = only_one_ending(name, known);
  return fmt::format("unknown option '{}'{} {}", name,
                     meant ? fmt::format(": did you mean '{}'?", *meant) : ";", see_help(at));
}

std::string names_of(const std::vector<const CLI::App*>& commands) {
  words names;
  for (const auto* command : commands)
    names.push_back(command->get_name());
  return fmt::format("{}", fmt::join(names, ", "));
}

/// The names that begin with `word`, each as 'name', joined by "or"; nothing for a word of one
/// letter, which begins too many.
std::optional<std::string> begun_by(const std::string& word, const words& names) {
  words meant;
  for (const auto& name : names)
    if (word.size() > 1 && name.starts_with(word))
      meant.push_back("'" + name + "'");
  if (meant.empty())
    return std::nullopt;
  return fmt::format("{}", fmt::join(meant, " or "));
}

std::string about_command(const CLI::App& root, const CLI::App& at, const std::string& word) {
  auto commands = shown_commands(at);
  words names;
  for (const auto* command : commands)
    names.push_back(command->get_name());
  auto unknown = fmt::format("unknown command '{}'", word);
  if (auto meant = begun_by(word, names))
    return fmt::format("{}: did you mean {}? {}", unknown, *meant, see_help(at));
  if (auto meant = config::closest(word, names))
    return fmt::format("{}: did you mean '{}'? {}", unknown, *meant, see_help(at));
  words elsewhere;
  collect(
      root, [&](const CLI::App& command) { return command.get_name() == word; }, elsewhere);
  if (!elsewhere.empty())
    return fmt::format("{}: did you mean {}?", unknown, fmt::join(elsewhere, ", "));
  return fmt::format("{}; it is one of {}; {}", unknown, names_of(commands), see_help(at));
}

/// The first word of the command line, behind the program's name, that no option or command took.
std::optional<std::string> first_unknown(const CLI::App& app, int argc, const char* const* argv) {
  auto left = app.remaining(true);
  for (int i = 1; i < argc; ++i)
    if (std::find(left.begin(), left.end(), argv[i]) != left.end() && std::string(argv[i]) != "--")
      return argv[i];
  return std::nullopt;
}

std::string in_our_words(const CLI::App& app, const CLI::ParseError& wrong, int argc,
                         const char* const* argv) {
  const auto& at = reached(app);
  auto unknown = first_unknown(app, argc, argv);
  if (unknown && unknown->starts_with('-') && unknown->size() > 1)
    return about_option(app, at, *unknown);
  if (unknown && !shown_commands(at).empty())
    return about_command(app, at, *unknown);
  if (unknown)
    return fmt::format("unexpected word '{}': `{}` takes no more; {}", *unknown, path_of(at),
                       see_help(at));
  // A known command was named, but the subcommand that it needs is missing.
  if (at.get_require_subcommand_min() > 0)
    return fmt::format("a command is missing; it is one of {}; {}", names_of(shown_commands(at)),
                       see_help(at));
  return fmt::format("{}; {}", wrong.what(), see_help(at));
}

} // namespace

result<bool> parse_words(CLI::App& app, int argc, const char* const* argv) {
  try {
    app.parse(argc, argv);
    return true;
  } catch (const CLI::ParseError& wrong) {
    if (wrong.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) {
      // The function `exit` of CLI11 writes the help or the version, and returns.
      std::ostringstream said;
      app.exit(wrong, said, said);
      constexpr std::size_t help_columns_max = 100;
      const auto text = wrapped_help(said.str(), std::min(columns_of(stdout), help_columns_max));
      (void)std::fwrite(text.data(), 1, text.size(), stdout);
      return false;
    }
    return {errc::invalid_argument, in_our_words(app, wrong, argc, argv)};
  }
}

} // namespace peercache::cli
