#include "cli/cluster_health.hpp"
#include "cli/command.hpp"
#include "config/node_config.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <optional>

namespace peercache::cli {

namespace {

struct level_arguments {
  std::string level; ///< Empty: only asks.
  std::string node;  ///< Empty: all nodes.
};

/// The answer of one node; no level when it does not answer.
struct node_level {
  std::string node;
  std::optional<std::string> level;
};

node_level tell(const discovery::member& member, const std::string& level,
                const global_options& globals) {
  auto admin = client::admin_client::connect(member.host, member.control_port, globals.cluster,
                                             globals.timeout(), globals.tls);
  auto said = admin ? (*admin)->log_level(level) : result<std::string>(admin.error());
  return {member.name, said ? std::optional(*said) : std::nullopt};
}

result<std::vector<node_level>> tell_nodes(const global_options& globals,
                                           const level_arguments& arguments) {
  const auto& words = config::words_of<config::log_level>;
  if (!arguments.level.empty() &&
      std::find(words.begin(), words.end(), arguments.level) == words.end())
    return error{errc::invalid_argument, fmt::format("'{}' is no log level; there are {}",
                                                     arguments.level, fmt::join(words, ", "))};
  auto admin = connect_admin(globals);
  if (!admin)
    return admin.error();
  auto view = (*admin)->view();
  if (!view)
    return view.error();
  auto members = view->members;
  std::erase_if(members, [&](const discovery::member& member) {
    return !arguments.node.empty() && member.name != arguments.node;
  });
  if (members.empty())
    return error{errc::not_found, fmt::format("no node is called '{}'; `peercache nodes` lists "
                                              "them",
                                              arguments.node)};
  std::vector<node_level> levels(members.size());
  several_at_a_time(members.size(),
                    [&](std::size_t i) { levels[i] = tell(members[i], arguments.level, globals); });
  std::sort(levels.begin(), levels.end(), [](const node_level& a, const node_level& b) {
    return discovery::natural_less(a.node, b.node);
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
