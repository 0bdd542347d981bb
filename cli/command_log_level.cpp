#include "cli/command.hpp"
#include "cli/members.hpp"
#include "config/node_config.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <optional>

namespace peercache::cli {

namespace {

struct level_arguments {
  std::string level; ///< The level to set; empty: levels are only shown.
  std::string node;  ///< Name of the node; empty: all nodes.
};

/// The answer of one node; no level when it does not answer.
struct node_level {
  std::string node;
  std::optional<std::string> level;
};

result<std::vector<node_level>> tell_nodes(const global_options& globals,
                                           const level_arguments& arguments) {
  const auto& words = config::words_of<config::log_level>;
  if (!arguments.level.empty() &&
      std::find(words.begin(), words.end(), arguments.level) == words.end())
    return error{errc::invalid_argument, fmt::format("'{}' is no log level; there are {}",
                                                     arguments.level, fmt::join(words, ", "))};
  auto members = members_named(globals, arguments.node);
  if (!members)
    return members.error();
  std::vector<node_level> levels(members->size());
  for (std::size_t i = 0; i < levels.size(); ++i)
    levels[i].node = (*members)[i].name;
  ask_members(*members, globals, [&](std::size_t i, client::admin_client& admin) {
    if (auto said = admin.log_level(arguments.level))
      levels[i].level = std::move(*said);
  });
  return levels;
}

exit_code run_log_level(const global_options& globals, const level_arguments& arguments) {
  const auto levels = tell_nodes(globals, arguments);
  if (!levels)
    return fail(globals, levels.error());
  text_table table({{"NODE"}, {"LEVEL"}});
  auto rows = nlohmann::json::array();
  bool all = true;
  for (const auto& each : *levels) {
    table.add_row({each.node, each.level.value_or("does not answer")});
    rows.push_back({{"name", each.node},
                    {"level", each.level ? nlohmann::json(*each.level) : nlohmann::json()}});
    all = all && each.level;
  }
  print(globals, {{"nodes", rows}}, table.to_string(colour_allowed(stdout)));
  return all ? exit_code::ok : exit_code::degraded;
}

} // namespace

void add_log_level_command(command_line& line) {
  auto arguments = std::make_shared<level_arguments>();
  auto* command = line.app.add_subcommand(
      "log-level", "The log level of all nodes, or another one for all or one of them until they "
                   "are started again (3: some nodes do not answer)");
  command->add_option(
      "LEVEL", arguments->level,
      fmt::format("{} [default: only show]", fmt::join(config::words_of<config::log_level>, ", ")));
  command->add_option("NODE", arguments->node,
                      "Its name, as `peercache nodes` lists it [default: all]");
  command->callback([&line, arguments] {
    line.action = [arguments](const global_options& globals) {
      return run_log_level(globals, *arguments);
    };
  });
}

} // namespace peercache::cli
