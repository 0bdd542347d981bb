#include "cli/command.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace peercache::cli {

namespace {

struct node_answer {
  discovery::member member;
  std::optional<client::node_status> status;
  error fault; ///< Why there is no status.
};

node_answer ask(const discovery::member& member, const global_options& globals) {
  node_answer answer{member, {}, {}};
  auto admin = client::admin_client::connect(member.host, member.control_port, globals.cluster,
                                             globals.timeout());
  auto status = admin ? (*admin)->status() : result<client::node_status>(admin.error());
  if (status)
    answer.status = *status;
  else
    answer.fault = status.error();
  return answer;
}

std::string text_of(const std::vector<node_answer>& answers, const discovery::view& view) {
  using side = text_table::align;
  text_table table({{"NODE"},
                    {"ADDRESS"},
                    {"STATE"},
                    {"ROLE"},
                    {"POOL", side::right},
                    {"USED", side::right},
                    {"PAGES", side::right},
                    {"EVICTIONS", side::right},
                    {"RECORDS", side::right}});
  for (const auto& [member, status, fault] : answers) {
    auto address = fmt::format("{}:{}", member.host, member.control_port);
    bool master =
        std::find(view.masters.begin(), view.masters.end(), member.name) != view.masters.end();
    if (!status) {
      table.add_row(
          {member.name, address, std::string(to_string(fault.code)), master ? "master" : "member"});
      continue;
    }
    auto share = status->pool_bytes_capacity == 0
                     ? 0.0
                     : static_cast<double>(status->pool_bytes_used) /
                           static_cast<double>(status->pool_bytes_capacity);
    table.add_row({member.name, address,
                   status->ready ? "ready" : "unready: " + status->unready_reason,
                   status->leader ? "leader"
                   : master       ? "master"
                                  : "member",
                   human_bytes(status->pool_bytes_capacity), human_percent(share),
                   human_count(status->pool_pages), human_count(status->evictions),
                   human_count(status->directory_records)});
  }
  return table.to_string(colour_allowed(stdout));
}

exit_code show_nodes(const global_options& globals) {
  auto admin = connect_admin(globals);
  if (!admin)
    return fail(globals, admin.error());
  auto view = (*admin)->view();
  if (!view)
    return fail(globals, view.error());
  std::vector<node_answer> answers;
  for (const auto& member : view->members)
    answers.push_back(ask(member, globals));
  std::sort(answers.begin(), answers.end(), [](const auto& a, const auto& b) {
    return discovery::natural_less(a.member.name, b.member.name);
  });
  nlohmann::json nodes = nlohmann::json::array();
  bool all_ready = true;
  for (const auto& answer : answers) {
    auto node =
        answer.status ? to_json(*answer.status) : nlohmann::json{{"node", to_json(answer.member)}};
    node["reachable"] = answer.status.has_value();
    node["fault"] = answer.fault.message;
    nodes.push_back(std::move(node));
    all_ready = all_ready && answer.status && answer.status->ready;
  }
  print(globals,
        {{"term", view->term},
         {"version", view->version},
         {"masters", view->masters},
         {"nodes", nodes}},
        text_of(answers, *view));
  return all_ready ? exit_code::ok : exit_code::degraded;
}

} // namespace

void add_nodes_command(command_line& line) {
  auto* command =
      line.app.add_subcommand("nodes", "All nodes of the cluster (3: not all of them are well)");
  command->callback([&line] { line.action = show_nodes; });
}

} // namespace peercache::cli
