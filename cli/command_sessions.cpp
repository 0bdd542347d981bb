#include "cli/command.hpp"
#include "cli/members.hpp"
#include "cli/session_rows.hpp"

#include <optional>

namespace peercache::cli {

namespace {

/// The answer of one node that was asked for its clients.
struct node_sessions {
  discovery::member member;
  std::optional<link::sessions_report> said;
};

/// Asks the member called `name`, or all members when it is empty, for their clients.
result<std::vector<node_sessions>> ask_sessions(const global_options& globals,
                                                const std::string& name) {
  auto members = members_named(globals, name);
  if (!members)
    return members.error();
  std::vector<node_sessions> answers(members->size());
  for (std::size_t i = 0; i < answers.size(); ++i)
    answers[i].member = (*members)[i];
  ask_members(*members, globals, [&](std::size_t i, client::admin_client& admin) {
    if (auto said = admin.sessions())
      answers[i].said = std::move(*said);
  });
  return answers;
}

exit_code show_sessions(const global_options& globals, const std::string& name) {
  const auto answers = ask_sessions(globals, name);
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
  std::string lines;
  for (const auto& answer : *answers) {
    if (!answer.said) {
      silent.push_back(answer.member.name);
      continue;
    }
    for (const auto& row : answer.said->rows) {
      table.add_row(session_cells(answer.member.name, row));
      list.push_back(session_json(answer.member.name, row));
      lines += session_lines(answer.member.name, row);
    }
  }
  print(globals, {{"sessions", list}, {"silent", silent}},
        table.to_string(colour_allowed(stdout)) + (lines.empty() ? "" : "\n") + lines);
  return silent.empty() ? exit_code::ok : exit_code::degraded;
}

} // namespace

void add_sessions_command(command_line& line) {
  auto name = std::make_shared<std::string>();
  auto* command = line.app.add_subcommand(
      "sessions",
      "The clients of all nodes, or of one: process, version, what they got and stored, "
      "in which key spaces, and who is on a slow path (3: some nodes do not answer)");
  command->add_option("NODE", *name, "Its name, as `peercache nodes` lists it [default: all]");
  command->callback([&line, name] {
    line.action = [name](const global_options& globals) { return show_sessions(globals, *name); };
  });
}

} // namespace peercache::cli
