#include "cli/build_facts.hpp"
#include "cli/command.hpp"
#include "common/copy.hpp"

#include <fmt/format.h>

namespace peercache::cli {
namespace {

nlohmann::json object_of(std::span<const named_text> texts) {
  auto object = nlohmann::json::object();
  for (const auto& [name, text] : texts)
    object[std::string{name}] = text;
  return object;
}

std::string line_of(std::span<const named_text> texts) {
  std::string line;
  for (const auto& [name, text] : texts)
    line += fmt::format("{}{} {}", line.empty() ? "" : ", ", name, text);
  return line;
}

} // namespace

void add_version_command(command_line& line) {
  auto* command = line.app.add_subcommand("version", "Version of this program, and of its formats");
  command->callback([&line] {
    line.action = [](const global_options& globals) {
      const auto facts = facts_of_build();
      print(globals,
            {{"version", PEERCACHE_VERSION},
             {"commit", facts.commit},
             {"instruction_set", copy_instruction_set()},
             {"formats", object_of(facts.formats)},
             {"libraries", object_of(facts.libraries)}},
            fmt::format("peercache {} ({})\ncommit: {}\nformats: {}\nlibraries: {}\n",
                        PEERCACHE_VERSION, copy_instruction_set(),
                        facts.commit.empty() ? "unknown" : facts.commit, line_of(facts.formats),
                        line_of(facts.libraries)));
      return exit_code::ok;
    };
  });
}

} // namespace peercache::cli
