#include "cli/command.hpp"

#include <fmt/format.h>

namespace peercache::cli {

namespace {

std::string text_of(const client::node_status& status, std::size_t members) {
  fact_list facts;
  facts.add("node",
            fmt::format("{} ({}:{}, data {}, http {})", status.self.name, status.self.host,
                        status.self.control_port, status.self.data_port, status.self.http_port));
  facts.add("incarnation", to_string(status.self.inc));
  facts.add("ready", status.ready ? "yes" : "no: " + status.unready_reason);
  facts.add("uptime", human_duration(std::chrono::milliseconds(status.uptime_ms)));
  facts.add("view", fmt::format("{} nodes, term {}, version {}{}", members, status.view_term,
                                status.view_version, status.leader ? ", led by this node" : ""));
  facts.add("pool",
            fmt::format("{} of {} used, {} pages", human_bytes(status.pool_bytes_used),
                        human_bytes(status.pool_bytes_capacity), human_count(status.pool_pages)));
  facts.add("puts", human_count(status.puts));
  facts.add("evictions", fmt::format("{} ({})", human_count(status.evictions),
                                     human_bytes(status.evicted_bytes)));
  facts.add("directory", human_count(status.directory_records) + " records");
  facts.add("sessions", human_count(status.sessions));
  facts.add("data plane", status.data_plane);
  facts.add("version", status.version);
  return facts.to_string();
}

exit_code show_status(const global_options& globals) {
  auto admin = connect_admin(globals);
  if (!admin)
    return fail(globals, admin.error());
  auto status = (*admin)->status();
  if (!status)
    return fail(globals, status.error());
  auto view = (*admin)->view();
  if (!view)
    return fail(globals, view.error());
  auto data = to_json(*status);
  data["members"] = view->members.size();
  data["masters"] = view->masters;
  print(globals, data, text_of(*status, view->members.size()));
  return status->ready ? exit_code::ok : exit_code::degraded;
}

} // namespace

void add_status_command(command_line& line) {
  auto* command =
      line.app.add_subcommand("status", "What one node says of itself (3: it is not ready)");
  command->callback([&line] { line.action = show_status; });
}

} // namespace peercache::cli
