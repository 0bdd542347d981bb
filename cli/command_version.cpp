#include "cli/command.hpp"
#include "common/copy.hpp"

#include <fmt/format.h>

namespace peercache::cli {

void add_version_command(command_line& line) {
  auto* command = line.app.add_subcommand("version", "Version of this program");
  command->callback([&line] {
    line.action = [](const global_options& globals) {
      print(globals, {{"version", PEERCACHE_VERSION}, {"instruction_set", copy_instruction_set()}},
            fmt::format("peercache {} ({})\n", PEERCACHE_VERSION, copy_instruction_set()));
      return exit_code::ok;
    };
  });
}

} // namespace peercache::cli
