#include "cli/cluster_health.hpp"
#include "cli/command.hpp"
#include "metrics/metric_table.hpp"

#include <fmt/format.h>
#include <map>

namespace peercache::cli {

using metrics::metric;

namespace {

std::string ready_text(const client::node_status& status) {
  if (!status.is(metric::ready))
    return "no: " + status.unready_reason;
  if (!status.samples.has(metric::draining))
    return "yes; whether it drains is not known";
  return status.is(metric::draining) ? "yes, draining" : "yes";
}

void add_node(fact_list& facts, const client::node_status& status) {
  const auto number = [&status](metric id, auto human) {
    return status.samples.has(id) ? human(status.count(id)) : std::string("?");
  };
  facts.add("node", fmt::format("{} ({}:{}, data {}, look-up {}, HTTP {})", status.self.name,
                                status.self.host, status.self.control_port, status.self.data_port,
                                status.lookup_port, status.self.http_port));
  facts.add("incarnation", to_string(status.self.inc));
  facts.add("ready", ready_text(status));
  facts.add("uptime", human_duration(std::chrono::milliseconds(
                          status.samples.milliseconds(metric::uptime_seconds))));
  facts.add("pool",
            fmt::format("{} of {} used, {} pages", number(metric::pool_bytes_used, human_bytes),
                        number(metric::pool_bytes_capacity, human_bytes),
                        number(metric::pool_pages, human_count)));
  facts.add("puts", number(metric::pool_puts_total, human_count));
  facts.add("evictions", fmt::format("{} ({})", number(metric::evictions_total, human_count),
                                     number(metric::evicted_bytes_total, human_bytes)));
  facts.add("directory", number(metric::directory_records, human_count) + " records");
  facts.add("sessions", number(metric::sessions, human_count));
  facts.add("data plane", status.data_plane);
  facts.add("TLS", status.is(metric::tls) ? "all ports" : "none");
  if (status.is(metric::insecure))
    facts.add("insecure", "whoever reaches the ports can read, store and remove pages");
  facts.add("version", status.version);
}

/// Counts the nodes in each state: "2 ready, 1 unreachable". The reasons of unready nodes are left
/// out, since they are among the faults.
std::string states_of(const std::vector<node_answer>& answers, std::size_t gone) {
  std::map<std::string, int> counts;
  for (const auto& answer : answers) {
    const auto state = state_of(answer);
    ++counts[state.substr(0, state.find(':'))];
  }
  std::vector<std::string> words;
  words.reserve(counts.size() + 1);
  for (const auto& [state, count] : counts)
    words.push_back(fmt::format("{} {}", count, state));
  if (gone > 0)
    words.push_back(fmt::format("{} gone", gone));
  return fmt::format("{}", fmt::join(words, ", "));
}

void add_cluster(fact_list& facts, const discovery::view& view,
                 const std::vector<node_answer>& answers,
                 const std::vector<cluster_fault>& faults) {
  facts.add("view", fmt::format("{} nodes, term {}, version {}{}", view.members.size(), view.term,
                                view.version, view.fragment() ? ", a fragment" : ""));
  facts.add("masters", view.masters.empty()
                           ? "none: it is in no cluster yet"
                           : fmt::format("{}, the first one leads", fmt::join(view.masters, ", ")));
  facts.add("nodes", states_of(answers, view.gone.size()));
  facts.add("cluster", faults.empty() ? "well" : "degraded");
  for (const auto& fault : faults)
    facts.add("", fmt::format("- {} [{}]", fault.text, fault.id));
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
  const auto answers = ask_all(*view, globals);
  const auto faults = faults_of(*status, *view, answers);
  fact_list facts;
  add_node(facts, *status);
  add_cluster(facts, *view, answers, faults);
  print(globals, status_json(*status, *view, answers, faults), facts.to_string());
  return status->is(metric::ready) && faults.empty() ? exit_code::ok : exit_code::degraded;
}

} // namespace

void add_status_command(command_line& line) {
  auto* command = line.app.add_subcommand(
      "status", "What a node says of itself, and what is wrong with its cluster (3: something)");
  command->callback([&line] { line.action = show_status; });
}

} // namespace peercache::cli
