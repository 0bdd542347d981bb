#include "cli/completion.hpp"

#include "cli/usage.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fmt/format.h>
#include <vector>

namespace peercache::cli {

namespace {

using words = std::vector<std::string>;

words option_names(const CLI::App& app) {
  words names;
  for (const auto* option : app.get_options())
    for (const auto& name : option->get_lnames())
      names.push_back("--" + name);
  return names;
}

/// A command in the completion script: its path, the words that may follow, and the options that
/// take fixed words.
struct place {
  std::string path;
  words next;
  words choices; ///< Lines of a shell's `case`.
};

void add_choices(const CLI::App& app, const std::string& path, words& lines) {
  for (const auto* option : app.get_options()) {
    const auto form = option->get_type_name();
    if (form.find('|') == std::string::npos)
      continue;
    auto listed = form;
    std::replace(listed.begin(), listed.end(), '|', ' ');
    for (const auto& name : option->get_lnames())
      lines.push_back(fmt::format("    '{}:--{}') next='{}' ;;", path, name, listed));
  }
}

void collect(const CLI::App& app, const std::string& path, const words& inherited,
             std::vector<place>& places) {
  place here{path, option_names(app), {}};
  const auto own = here.next;
  here.next.insert(here.next.end(), inherited.begin(), inherited.end());
  for (const auto* command : shown_commands(app))
    here.next.push_back(command->get_name());
  add_choices(app, path, here.choices);
  std::sort(here.next.begin(), here.next.end());
  here.next.erase(std::unique(here.next.begin(), here.next.end()), here.next.end());
  auto passed_on = path.empty() ? own : inherited;
  places.push_back(std::move(here));
  for (const auto* command : shown_commands(app))
    collect(*command, path.empty() ? command->get_name() : path + " " + command->get_name(),
            passed_on, places);
}

constexpr const char* script_head =
    R"(# Completion of peercache for bash; `peercache completion bash` made it.
_peercache() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD - 1]}}
  local path='' word longer next=''
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    longer=${{path:+$path }}$word
    case $longer in
    {}) path=$longer ;;
    esac
  done
  case $path in
)";

constexpr const char* script_tail = R"(  esac
  case $previous in
    --output | -o) next='table json' ;;
  esac
  case $path:$previous in
{}
  esac
  mapfile -t COMPREPLY < <(compgen -W "$next" -- "$current")
}}
complete -o default -F _peercache peercache
)";

} // namespace

std::string bash_completion(const CLI::App& app) {
  std::vector<place> places;
  collect(app, "", {}, places);
  words paths, choices;
  std::string cases;
  for (const auto& each : places) {
    if (!each.path.empty())
      paths.push_back("'" + each.path + "'");
    cases += fmt::format("    '{}') next='{}' ;;\n", each.path, fmt::join(each.next, " "));
    choices.insert(choices.end(), each.choices.begin(), each.choices.end());
  }
  return fmt::format(fmt::runtime(script_head), fmt::join(paths, " | ")) + cases +
         fmt::format(fmt::runtime(script_tail), fmt::join(choices, "\n"));
}

} // namespace peercache::cli
