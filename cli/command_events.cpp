#include "cli/cluster_history.hpp"
#include "cli/command.hpp"

#include <fmt/format.h>

namespace peercache::cli {

namespace {

exit_code show_events(const global_options& globals) {
  auto admin = connect_admin(globals);
  if (!admin)
    return fail(globals, admin.error());
  auto status = (*admin)->status();
  auto view = (*admin)->view();
  if (!status || !view)
    return fail(globals, status ? view.error() : status.error());
  const auto memories = ask_memories(*view, globals);
  text_table table({{"TIME"}, {"NODE"}, {"EVENT"}, {"WHAT"}});
  auto list = nlohmann::json::array();
  for (const auto& event : events_of(memories, status->self.name)) {
    table.add_row({link::time_text(event.unix_ms), event.node,
                   (event.over ? "over: " : "") + event.kind, event.text});
    list.push_back(to_json(event));
  }
  auto silent = nlohmann::json::array();
  for (const auto& memory : memories)
    if (!memory.said)
      silent.push_back(memory.member.name);
  print(globals, {{"asked", status->self.name}, {"events", list}, {"silent", silent}},
        table.to_string(colour_allowed(stdout)));
  return silent.empty() ? exit_code::ok : exit_code::degraded;
}

} // namespace

void add_events_command(command_line& line) {
  auto* command = line.app.add_subcommand(
      "events", "What happened: joins and leaves as a node saw them, incidents of all nodes (3: "
                "some nodes do not answer)");
  command->callback([&line] { line.action = show_events; });
}

} // namespace peercache::cli
