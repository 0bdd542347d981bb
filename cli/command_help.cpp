#include "cli/command.hpp"
#include "cli/completion.hpp"
#include "cli/examples.hpp"
#include "cli/usage.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <span>

namespace peercache::cli {

namespace {

/// Whether each word names a command below that of the previous word. Words behind the innermost
/// command are not looked at.
bool are_commands(const CLI::App& app, std::span<const std::string> words) {
  const auto below = shown_commands(app);
  if (below.empty() || words.empty())
    return true;
  const auto found = std::ranges::find(below, words.front(), &CLI::App::get_name);
  return found != below.end() && are_commands(**found, words.subspan(1));
}

/// Prints the help of the command that `words` name, as `WORDS --help` does. Words that do not name
/// a command go without --help, so that CLI11 refuses them: it would obey --help first.
exit_code help_of(const CLI::App& app, const std::vector<std::string>& words) {
  std::vector<const char*> all{"peercache"};
  for (const auto& word : words)
    all.push_back(word.c_str());
  if (are_commands(app, words))
    all.push_back("--help");
  return run(static_cast<int>(all.size()), all.data());
}

exit_code cheat(const global_options& globals) {
  auto data = nlohmann::json::array();
  std::vector<std::string> lines;
  std::size_t width = 0;
  for (const auto& each : examples()) {
    lines.push_back(
        fmt::format("peercache {}{}{}", each.command, each.rest.empty() ? "" : " ", each.rest));
    width = std::max(width, lines.back().size());
    data.push_back({{"line", lines.back()}, {"meaning", each.meaning}});
  }
  std::string text;
  for (std::size_t i = 0; i < lines.size(); ++i)
    text += fmt::format("{:<{}}  {}\n", lines[i], width, examples()[i].meaning);
  print(globals, {{"examples", data}}, text);
  return exit_code::ok;
}

} // namespace

void add_help_command(command_line& line) {
  auto* command = line.app.add_subcommand("help", "The help of a command");
  auto words = std::make_shared<std::vector<std::string>>();
  command->add_option("COMMAND", *words, "Its words, such as: key explain");
  command->callback([&line, words] {
    line.action = [&line, words](const global_options&) { return help_of(line.app, *words); };
  });
}

void add_cheat_command(command_line& line) {
  auto* command = line.app.add_subcommand("cheat", "Lines to copy, for each command");
  command->callback([&line] { line.action = cheat; });
}

void add_completion_command(command_line& line) {
  auto* command = line.app.add_subcommand(
      "completion", "A script with which a shell completes commands, options and their words");
  auto shell = std::make_shared<std::string>();
  command->add_option("SHELL", *shell, "bash")->required()->check(CLI::IsMember({"bash"}));
  command->callback([&line, shell] { // CLI11 writes to `shell` while it parses.
    line.action = [&line](const global_options& globals) {
      const auto script = bash_completion(line.app);
      print(globals, {{"script", script}}, script);
      return exit_code::ok;
    };
  });
}

} // namespace peercache::cli
