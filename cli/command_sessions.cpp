#include "cli/cluster_health.hpp"
#include "cli/command.hpp"
#include "cli/session_rows.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <optional>

namespace peercache::cli {

namespace {

/// The answer of one node that was asked for its clients.
struct node_sessions {
  discovery::member member;
  std::optional<link::sessions_report> said;
};

node_sessions ask_one(const discovery::member& member, const global_options& globals) {
  node_sessions answer{member, {}};
  auto admin = client::admin_client::connect(member.host, member.control_port, globals.cluster,
                                             globals.timeout(), globals.tls);
  if (!admin)
    return answer;
  if (auto said = (*admin)->sessions())
    answer.said = std::move(*said);
  return answer;
}

/// The members to ask: the one of this name, or all of them.
result<std::vector<node_sessions>> ask_members(const global_options& globals,
                                               const std::string& name) {
  auto admin = connect_admin(globals);
  if (!admin)
    return admin.error();
  auto view = (*admin)->view();
  if (!view)
    return view.error();
  std::vector<discovery::member> members;
  for (const auto& member : view->members)
    if (name.empty() || member.name == name)
      members.push_back(member);
  if (members.empty())
    return error{errc::not_found, fmt::format("no node is called '{}'; `peercache nodes` lists "
                                              "them",
                                              name)};
  std::sort(members.begin(), members.end(),
            [](const auto& a, const auto& b) { return discovery::natural_less(a.name, b.name); });
  std::vector<node_sessions> answers(members.size());
  several_at_a_time(members.size(),
                    [&](std::size_t i) { answers[i] = ask_one(members[i], globals); });
  return answers;
}

exit_code show_sessions(const global_options& globals, const std::string& name) {
  const auto answers = ask_members(globals, name);
  if (!answers)
    return fail(globals, answers.error());
  using side = text_table::align;
  text_table table({{"NODE"},
                    {"PID", side::right},
                    {"VERSION"},
                    {"SINCE"},
                    {"STATE"},
                    {"SLOTS", side::right},
                    {"HITS", side::right},
                    {"MISSES", side::right},
                    {"SETS", side::right}});
  auto list = nlohmann::json::array(), silent = nlohmann::json::array();
  for (const auto& answer : *answers) {
    if (!answer.said) {
      silent.push_back(answer.member.name);
      continue;
    }
    for (const auto& row : answer.said->rows) {
      table.add_row(session_cells(answer.member.name, row));
      list.push_back(session_json(answer.member.name, row));
    }
  }
  print(globals, {{"sessions", list}, {"silent", silent}}, table.to_string(colour_allowed(stdout)));
  return silent.empty() ? exit_code::ok : exit_code::degraded;
}

} // namespace

void add_sessions_command(command_line& line) {
  auto name = std::make_shared<std::string>();
  auto* command = line.app.add_subcommand(
      "sessions", "The clients of all nodes, or of one: process, version, what they got and stored "
                  "(3: some nodes do not answer)");
  command->add_option("NODE", *name, "Its name, as `peercache nodes` lists it [default: all]");
  command->callback([&line, name] {
    line.action = [name](const global_options& globals) { return show_sessions(globals, *name); };
  });
}

} // namespace peercache::cli
