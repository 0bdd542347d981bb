#include "cli/cluster_health.hpp"
#include "cli/command.hpp"
#include "cli/members.hpp"
#include "metrics/metric_table.hpp"

#include <fmt/format.h>

namespace peercache::cli {

using metrics::metric;

namespace {

/// The faults that a node says of itself; none when it gave no status.
std::vector<link::node_fault> faults_said_by(const node_answer& answer) {
  return answer.status ? link::own_faults_of(*answer.status) : std::vector<link::node_fault>();
}

/// Lines for the faults that nodes say of themselves, each in words and with the time at which it
/// began.
std::string fault_lines_of(const std::vector<node_answer>& answers) {
  fact_list facts;
  for (const auto& answer : answers)
    for (const auto& fault : faults_said_by(answer))
      facts.add(answer.member.name, fmt::format("{} [{}]", link::sentence_of(fault), fault.id));
  const auto lines = facts.to_string();
  return lines.empty() ? lines : "\n" + lines;
}

/// The cells of POOL, USED, PAGES, EVICTIONS and RECORDS: "?" for what an actor of the node did not
/// tell.
std::vector<std::string> number_cells_of(const client::node_status& status) {
  const auto known = [&status](metric id, auto human, auto number) {
    return status.samples.has(id) ? human(number) : std::string("?");
  };
  const auto capacity = status.count(metric::pool_bytes_capacity);
  const auto share =
      capacity == 0 ? 0.0
                    : status.samples.value(metric::pool_bytes_used) / static_cast<double>(capacity);
  std::vector<std::string> cells{known(metric::pool_bytes_capacity, human_bytes, capacity),
                                 known(metric::pool_bytes_used, human_percent, share)};
  for (const auto id : {metric::pool_pages, metric::evictions_total, metric::directory_records})
    cells.push_back(known(id, human_count, status.count(id)));
  return cells;
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
  for (const auto& answer : answers) {
    const auto& member = answer.member;
    const auto& status = answer.status;
    std::vector<std::string> cells{member.name,
                                   fmt::format("{}:{}", member.host, member.control_port),
                                   state_of(answer), role_of(answer, view)};
    if (status) {
      if (const auto ids = fault_ids_of(*status); !ids.empty())
        cells[2] += fmt::format(" ({})", fmt::join(ids, ", "));
      const auto numbers = number_cells_of(*status);
      cells.insert(cells.end(), numbers.begin(), numbers.end());
    }
    table.add_row(std::move(cells));
  }
  for (const auto& each : view.gone)
    table.add_row({each.name, fmt::format("{}:{}", each.host, each.control_port),
                   fmt::format("gone: {}, since {}", to_string(each.why), since_of(each))});
  return table.to_string(colour_allowed(stdout)) + fault_lines_of(answers);
}

nlohmann::json json_of(const node_answer& answer) {
  auto node =
      answer.status ? to_json(*answer.status) : nlohmann::json{{"node", to_json(answer.member)}};
  node["reachable"] = answer.status.has_value();
  node["state"] = state_of(answer);
  node["fault"] = answer.fault.message;
  node["faults"] = nlohmann::json::array();
  for (const auto& fault : faults_said_by(answer))
    node["faults"].push_back(
        {{"id", fault.id}, {"text", link::sentence_of(fault)}, {"since_unix_ms", fault.since_ms}});
  return node;
}

nlohmann::json json_of_gone(const discovery::departed& who) {
  return {{"node", to_json(who)},
          {"reachable", false},
          {"ready", false},
          {"state", "gone"},
          {"fault", fmt::format("{}, since {}", to_string(who.why), since_of(who))}};
}

exit_code show_nodes(const global_options& globals) {
  auto view = ask_view(globals);
  if (!view)
    return fail(globals, view.error());
  const auto answers = ask_all(*view, globals);
  nlohmann::json nodes = nlohmann::json::array();
  bool all_ready = view->gone.empty();
  for (const auto& answer : answers) {
    nodes.push_back(json_of(answer));
    all_ready = all_ready && answer.status && answer.status->is(metric::ready) &&
                fault_ids_of(*answer.status).empty();
  }
  for (const auto& each : view->gone)
    nodes.push_back(json_of_gone(each));
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
