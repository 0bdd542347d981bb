#include "cli/manual.hpp"

#include "cli/examples.hpp"
#include "cli/usage.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fmt/format.h>
#include <vector>

namespace peercache::cli {

namespace {

/// Text that troff prints as it stands.
std::string plain(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else if (c == '\n')
      out += "\n.br\n";
    else
      out += c;
  }
  // A line that begins with a dot or an apostrophe would be a request.
  if (!out.empty() && (out.front() == '.' || out.front() == '\''))
    out.insert(0, "\\&");
  return out;
}

bool is_positional(const CLI::Option& option) {
  return option.get_lnames().empty() && option.get_snames().empty();
}

std::string man_heading(const CLI::Option& option) {
  const auto form = option.get_type_size() == 0 ? std::string() : option.get_type_name();
  if (is_positional(option))
    return "\\fI" + plain(option.get_name(true)) + "\\fR";
  std::vector<std::string> names;
  for (const auto& name : option.get_snames())
    names.push_back("\\fB\\-" + plain(name) + "\\fR");
  for (const auto& name : option.get_lnames())
    names.push_back("\\fB\\-\\-" + plain(name) + "\\fR");
  return fmt::format("{}{}", fmt::join(names, ", "),
                     form.empty() ? "" : " \\fI" + plain(form) + "\\fR");
}

std::string man_options(const CLI::App& app) {
  std::string text;
  for (const auto* option : app.get_options())
    if (!option->get_group().empty())
      text += fmt::format(".TP\n{}\n{}\n", man_heading(*option), plain(option->get_description()));
  return text;
}

std::string man_examples(std::string_view command) {
  std::string text;
  for (const auto& each : examples())
    if (each.command == command)
      text += fmt::format(".PP\n\\fBpeercache {}{}{}\\fR\n.br\n{}.\n", plain(each.command),
                          each.rest.empty() ? "" : " ", plain(each.rest), plain(each.meaning));
  return text;
}

void add_man_commands(const CLI::App& app, const std::string& above, std::string& text) {
  for (const auto* command : shown_commands(app)) {
    const auto path = above + command->get_name();
    text += fmt::format(".SS {}\n{}.\n", plain(path), plain(command->get_description()));
    text += man_options(*command) + man_examples(path);
    add_man_commands(*command, path + " ", text);
  }
}

void add_rows(const CLI::App& app, const std::string& above, std::string& text) {
  for (const auto* command : shown_commands(app)) {
    const auto path = above + command->get_name();
    text += fmt::format("| `{}` | {} |\n", path, command->get_description());
    add_rows(*command, path + " ", text);
  }
}

} // namespace

std::string manual_of(const CLI::App& app, std::span<const std::string_view> description,
                      std::string_view also) {
  const auto commands = shown_commands(app);
  auto text =
      fmt::format(".\\\" Made by peercache_cli_docs; do not edit.\n"
                  ".TH {} 1 \"\" \"PeerCache\" \"PeerCache\"\n"
                  ".SH NAME\n{} \\- {}\n.SH SYNOPSIS\n.B {}\n{}[\\fIOPTION\\fR]...\n",
                  plain(app.get_name()), plain(app.get_name()), plain(app.get_description()),
                  plain(app.get_name()), commands.empty() ? "" : "\\fICOMMAND\\fR ");
  text += ".SH DESCRIPTION\n";
  for (const auto paragraph : description)
    text += ".PP\n" + plain(paragraph) + "\n";
  text += ".SH OPTIONS\n" + man_options(app);
  if (!commands.empty()) {
    text += ".SH COMMANDS\n";
    add_man_commands(app, "", text);
  }
  return text + fmt::format(".SH SEE ALSO\n{}\n", plain(also));
}

std::string cli_document(const CLI::App& app) {
  std::string text = "# The command line\n\n<!-- Generated from the commands themselves by "
                     "peercache_cli_docs; a test compares it. Do not edit. -->\n\n"
                     "`peercache help COMMAND` and the manual page have the options of each. "
                     "[cli.schema.json](cli.schema.json) has the JSON schema of what each prints "
                     "with `-o json`.\n\n"
                     "| command | what it does |\n|---|---|\n";
  add_rows(app, "peercache ", text);
  text += "\n## Examples\n\n| line | what it is for |\n|---|---|\n";
  for (const auto& each : examples())
    text += fmt::format("| `peercache {}{}{}` | {} |\n", each.command, each.rest.empty() ? "" : " ",
                        each.rest, each.meaning);
  return text;
}

} // namespace peercache::cli
