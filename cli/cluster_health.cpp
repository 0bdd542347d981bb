#include "cli/cluster_health.hpp"
#include "metrics/metric_table.hpp"

#include <algorithm>
#include <atomic>
#include <ctime>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <map>
#include <thread>

namespace peercache::cli {

using metrics::metric;

namespace {

/// How many members are asked at a time: each connection takes an actor system of its own
/// meanwhile.
constexpr std::size_t asked_at_once = 8;

node_answer ask(const discovery::member& member, const global_options& globals) {
  node_answer answer{member, {}, {}};
  auto admin = client::admin_client::connect(member.host, member.control_port, globals.cluster,
                                             globals.timeout(), globals.tls);
  auto status = admin ? (*admin)->status() : result<client::node_status>(admin.error());
  if (status)
    answer.status = *status;
  else
    answer.fault = status.error();
  return answer;
}

void add_disk_faults(const node_answer& answer, std::vector<std::string>& faults) {
  const auto& disk = answer.status->disk;
  const auto& name = answer.member.name;
  // A disk tier without a path is off on purpose: no fault.
  if (!answer.status->is(metric::disk_on)) {
    if (!disk.path.empty())
      faults.push_back(fmt::format("{}: its disk tier is off: {}; what is there is missed, and "
                                   "clears may not be certain",
                                   name, disk.why_off));
    return;
  }
  if (disk.breaker != "closed")
    faults.push_back(fmt::format("{}: its disk fails, and is left alone for a while; see its log "
                                 "and `peercache disk status {}`",
                                 name, name));
  else if (answer.status->is(metric::disk_read_only))
    faults.push_back(fmt::format("{}: its disk tier takes no pages; see `peercache disk status {}`",
                                 name, name));
}

/// Adds a fault if the view is a fragment, that is, was made without most of the masters of the
/// view before it.
void add_fragment(const discovery::view& view, std::vector<std::string>& faults) {
  if (!view.fragment())
    return;
  std::vector<std::string> lost;
  for (const auto& master : view.former_masters)
    if (view.find(master.id) == nullptr)
      lost.push_back(master.name);
  faults.push_back(fmt::format(
      "the view is a fragment: {} of the {} masters of the view before it were lost ({}), and the "
      "others go on without them; start them again, under their names on any host",
      lost.size(), view.former_masters.size(), fmt::join(lost, ", ")));
}

/// Adds who is gone, and the configured seeds that are in no view.
void add_missing(const client::node_status& asked, const discovery::view& view,
                 const std::vector<node_answer>& answers, std::vector<std::string>& faults) {
  for (const auto& each : view.gone)
    faults.push_back(fmt::format("{} ({}:{}) is gone since {} ({}), and its pages with it; start "
                                 "it again under its name, or `peercache forget {}` when it is "
                                 "gone for good",
                                 each.name, each.host, each.control_port, since_of(each),
                                 to_string(each.why), each.name));
  std::map<std::string, std::vector<std::string>> who_lack;
  const auto note = [&who_lack](const client::node_status& status) {
    for (const auto& seed : status.membership.missing_seeds)
      who_lack[seed].push_back(status.self.name);
  };
  for (const auto& answer : answers)
    if (answer.status)
      note(*answer.status);
  if (answers.empty())
    note(asked);
  for (const auto& [seed, names] : who_lack)
    faults.push_back(fmt::format("no node of the cluster is at {}, which discovery.seeds of {} "
                                 "names; start the node there, or take the address out",
                                 seed, fmt::join(names, ", ")));
}

/// Adds the faults of one node that was asked.
/// @param answering How many of the view's nodes answer.
void add_faults(const node_answer& answer, const discovery::view& view, std::size_t answering,
                std::vector<std::string>& faults) {
  const auto& name = answer.member.name;
  if (!answer.status) {
    faults.push_back(fmt::format("{} does not answer ({}); its pages are misses until it does",
                                 name, answer.fault.message));
    return;
  }
  const auto& status = *answer.status;
  if (!status.is(metric::ready))
    faults.push_back(fmt::format("{} is not ready: {}", name, status.unready_reason));
  if (status.self.inc != answer.member.inc)
    faults.push_back(name + " was started again since this view was made; the next view has it");
  if (status.count(metric::view_term) != view.term ||
      status.count(metric::view_version) != view.version)
    faults.push_back(fmt::format("{} has another view: term {}, version {}; ask again, and if it "
                                 "stays so look at the network between it and the masters",
                                 name, status.count(metric::view_term),
                                 status.count(metric::view_version)));
  // Members that do not answer have a fault of their own, so a missing connection to them is no
  // further fault.
  else if (status.count(metric::links) + 1 < answering)
    faults.push_back(fmt::format("{} is connected to {} of {} other nodes; look at the network "
                                 "between them",
                                 name, status.count(metric::links), answering - 1));
  add_disk_faults(answer, faults);
}

} // namespace

std::vector<node_answer> ask_all(const discovery::view& view, const global_options& globals) {
  std::vector<node_answer> answers(view.members.size());
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (auto i = next++; i < answers.size(); i = next++)
      answers[i] = ask(view.members[i], globals);
  };
  {
    std::vector<std::jthread> askers;
    for (std::size_t i = 0; i < std::min(asked_at_once, answers.size()); ++i)
      askers.emplace_back(work);
  }
  std::sort(answers.begin(), answers.end(), [](const node_answer& a, const node_answer& b) {
    return discovery::natural_less(a.member.name, b.member.name);
  });
  return answers;
}

bool is_master(const discovery::view& view, const std::string& name) {
  return std::find(view.masters.begin(), view.masters.end(), name) != view.masters.end();
}

std::vector<std::string> faults_of(const client::node_status& asked, const discovery::view& view,
                                   const std::vector<node_answer>& answers) {
  std::vector<std::string> faults;
  if (view.members.empty())
    faults.push_back(fmt::format("{} is in no cluster: {}", asked.self.name, asked.unready_reason));
  add_fragment(view, faults);
  add_missing(asked, view, answers, faults);
  const auto answering = static_cast<std::size_t>(
      std::count_if(answers.begin(), answers.end(),
                    [](const node_answer& answer) { return answer.status.has_value(); }));
  std::size_t masters_well = 0;
  for (const auto& answer : answers) {
    add_faults(answer, view, answering, faults);
    masters_well += answer.status && is_master(view, answer.member.name);
  }
  if (view.masters.size() >= 3 && masters_well <= view.masters.size() / 2)
    faults.push_back(fmt::format(
        "{} of {} masters answer, no majority: nobody can join or leave until those who are left "
        "have made a view without them; start the others again",
        masters_well, view.masters.size()));
  return faults;
}

std::string state_of(const node_answer& answer) {
  if (!answer.status)
    return std::string(to_string(answer.fault.code));
  if (!answer.status->is(metric::ready))
    return "unready: " + answer.status->unready_reason;
  return answer.status->is(metric::draining) ? "draining" : "ready";
}

std::string since_of(const discovery::departed& who) {
  const auto seconds = static_cast<std::time_t>(who.since_ms / 1000);
  return fmt::format("{:%Y-%m-%d %H:%M:%S} UTC", fmt::gmtime(seconds));
}

nlohmann::json to_json(const discovery::departed& who) {
  return {{"name", who.name},
          {"host", who.host},
          {"control_port", who.control_port},
          {"since_unix_ms", who.since_ms},
          {"why", to_string(who.why)}};
}

std::string role_of(const node_answer& answer, const discovery::view& view) {
  if (answer.status && answer.status->is(metric::is_leader))
    return "leader";
  return is_master(view, answer.member.name) ? "master" : "member";
}

} // namespace peercache::cli
