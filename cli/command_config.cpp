#include "cli/command.hpp"
#include "config/load.hpp"
#include "config/process_sources.hpp"
#include "config/render.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fmt/format.h>

namespace peercache::cli {

namespace {

/// The configuration of the file at `path`, or of the one that PEERCACHE_CONFIG names, under the
/// environment; as a node would take it.
result<config::loaded_config> load_from(const std::string& path) {
  auto sources =
      config::sources_of_process(path.empty() ? std::nullopt : std::optional<std::string>(path));
  if (!sources)
    return sources.error();
  return config::load(*sources);
}

exit_code show(const global_options& globals, const std::string& path) {
  const auto loaded = load_from(path);
  if (!loaded)
    return fail(globals, loaded.error());
  auto options = nlohmann::json::array();
  for (const auto& each : loaded->values)
    options.push_back({{"option", each.opt->name},
                       {"value", config::value_text(*each.opt, each.value)},
                       {"origin", to_string(each.from)}});
  print(globals, {{"options", options}}, config::render_effective(*loaded));
  return exit_code::ok;
}

exit_code check(const global_options& globals, const std::string& path) {
  const auto loaded = load_from(path);
  if (!loaded)
    return fail(globals, loaded.error());
  std::string text;
  for (const auto& warning : loaded->warnings)
    text += "warning: " + warning + "\n";
  print(globals, {{"valid", true}, {"warnings", loaded->warnings}}, text + "configuration ok\n");
  return exit_code::ok;
}

/// Writes the default file, which has all options, to `path`, or to stdout if `path` is empty. Does
/// not overwrite an existing file.
exit_code init(const global_options& globals, const std::string& path) {
  const auto text = config::render_default_file();
  if (path.empty()) {
    print(globals, {{"file", text}}, text);
    return exit_code::ok;
  }
  auto* file = std::fopen(path.c_str(), "wxe");
  bool written = file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (file != nullptr)
    written = std::fclose(file) == 0 && written;
  if (!written)
    return fail(globals, {errc::io_failed,
                          fmt::format("cannot write '{}': {}", path, std::strerror(errno))});
  print(globals, {{"path", path}}, fmt::format("{}: written, with every default\n", path));
  return exit_code::ok;
}

using config_action = exit_code (*)(const global_options&, const std::string&);

void add_action(command_line& line, CLI::App& above, const char* name, const char* meaning,
                config_action action, const char* file_meaning) {
  auto path = std::make_shared<std::string>();
  auto* command = above.add_subcommand(name, meaning);
  command->add_option("FILE", *path, file_meaning);
  command->callback([&line, action, path] {
    line.action = [action, path](const global_options& globals) { return action(globals, *path); };
    // A command about a configuration file must work although that file is wrong.
    line.configured = {};
  });
}

} // namespace

void add_config_command(command_line& line) {
  auto* command = line.app.add_subcommand("config", "The configuration of a node");
  command->require_subcommand(1);
  constexpr auto file = "The file [default: the one that PEERCACHE_CONFIG names, if any]";
  add_action(line, *command, "show", "Every option in force, and where it was set", show, file);
  add_action(line, *command, "check", "Whether a node would take it (2: what is wrong)", check,
             file);
  add_action(line, *command, "init", "Write a file with all options and their defaults", init,
             "The file, which is made [default: stdout]");
}

} // namespace peercache::cli
