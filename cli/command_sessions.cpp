#include "cli/cluster_health.hpp"
#include "cli/command.hpp"
#include "metrics/metric_table.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <optional>

namespace peercache::cli {

using metrics::metric;

namespace {

/// The answer of one node that was asked for its clients.
struct node_sessions {
  discovery::member member;
  std::optional<link::sessions_report> said;
};

/// The parts of a client's name, "client-PID/VERSION".
struct client_name {
  std::string pid, version;
};

client_name parts_of(const std::string& name) {
  const auto dash = name.find('-');
  const auto slash = name.find('/');
  if (dash == std::string::npos || slash == std::string::npos || slash < dash)
    return {};
  return {name.substr(dash + 1, slash - dash - 1), name.substr(slash + 1)};
}

/// The sum of the metric over its labels; of those series only whose first word is `word`, unless
/// that is empty.
std::uint64_t sum_of(const metrics::samples& totals, metric which, std::string_view word = {}) {
  double sum = 0;
  for (const auto& [series, value] : totals.values())
    if (series.id == which && (word.empty() || series.words[0] == word))
      sum += value;
  return static_cast<std::uint64_t>(sum);
}

nlohmann::json row_json(const std::string& node, const link::session_row& row) {
  const auto name = parts_of(row.client);
  auto misses = nlohmann::json::object();
  for (const auto& [series, value] : row.totals.values())
    if (series.id == metric::misses_total && value > 0)
      misses[series.words[0]] = static_cast<std::uint64_t>(value);
  return {{"node", node},
          {"client", row.client},
          {"pid", name.pid.empty() ? nlohmann::json() : nlohmann::json(std::stoll(name.pid))},
          {"version", name.version},
          {"opened_unix_ms", row.opened_ms},
          {"silent", row.silent},
          {"slots", row.slots},
          {"hits", sum_of(row.totals, metric::hits_total)},
          {"misses", misses},
          {"sets", sum_of(row.totals, metric::pages_total, "set")},
          {"get_bytes", sum_of(row.totals, metric::bytes_total, "get")},
          {"set_bytes", sum_of(row.totals, metric::bytes_total, "set")}};
}

void add_row(text_table& table, const std::string& node, const link::session_row& row) {
  const auto name = parts_of(row.client);
  table.add_row({node, name.pid.empty() ? row.client : name.pid, name.version,
                 link::time_text(row.opened_ms), row.silent ? "silent" : "connected",
                 human_count(row.slots), human_count(sum_of(row.totals, metric::hits_total)),
                 human_count(sum_of(row.totals, metric::misses_total)),
                 human_count(sum_of(row.totals, metric::pages_total, "set"))});
}

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
      add_row(table, answer.member.name, row);
      list.push_back(row_json(answer.member.name, row));
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
