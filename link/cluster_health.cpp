#include "link/cluster_health.hpp"

#include "common/fault_ids.hpp"
#include "metrics/metric_table.hpp"

#include <algorithm>
#include <ctime>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <map>

namespace peercache::link {

using metrics::metric;

namespace {

/// Clocks that differ by more than this are a fault.
constexpr std::uint64_t clock_tolerance_ms = 1000;

/// Adds a fault if the view is a fragment, that is, was made without most of the masters of the
/// previous view.
void add_fragment(const discovery::view& view, std::vector<cluster_fault>& faults) {
  if (!view.fragment())
    return;
  std::vector<std::string> lost;
  for (const auto& master : view.former_masters)
    if (view.find(master.id) == nullptr)
      lost.push_back(master.name);
  faults.push_back(
      {fault_ids::fragment, "",
       fmt::format("the view is a fragment: {} of the {} masters of the view before it were lost "
                   "({}), and the others go on without them; start them again, under their names "
                   "on any host",
                   lost.size(), view.former_masters.size(), fmt::join(lost, ", "))});
}

/// Adds a fault for each member that is gone, and for each configured seed that no view has.
void add_missing(const node_status& asked, const discovery::view& view,
                 const std::vector<node_answer>& answers, std::vector<cluster_fault>& faults) {
  for (const auto& each : view.gone)
    faults.push_back({fault_ids::node_gone, each.name,
                      fmt::format("{} ({}:{}) is gone since {} ({}), and its pages with it; start "
                                  "it again under its name, or `peercache forget {}` when it is "
                                  "gone for good",
                                  each.name, each.host, each.control_port, since_of(each),
                                  to_string(each.why), each.name)});
  std::map<std::string, std::vector<std::string>> who_lack;
  const auto note = [&who_lack](const node_status& status) {
    for (const auto& seed : status.membership.missing_seeds)
      who_lack[seed].push_back(status.self.name);
  };
  for (const auto& answer : answers)
    if (answer.status)
      note(*answer.status);
  if (answers.empty())
    note(asked);
  for (const auto& [seed, names] : who_lack)
    faults.push_back({fault_ids::seed_missing, "",
                      fmt::format("no node of the cluster is at {}, which discovery.seeds of {} "
                                  "names; start the node there, or take the address out",
                                  seed, fmt::join(names, ", "))});
}

/// Adds the faults that a node reports of itself.
void add_own(const node_status& status, std::vector<cluster_fault>& faults) {
  for (const auto& each : own_faults_of(status))
    faults.push_back({each.id, status.self.name, status.self.name + ": " + sentence_of(each)});
}

/// Adds a fault if the node has another view, or lacks connections to members of `view`.
/// @param answering How many of the view's nodes answer.
void add_apart(const node_answer& answer, const discovery::view& view, std::size_t answering,
               std::vector<cluster_fault>& faults) {
  const auto& name = answer.member.name;
  const auto& status = *answer.status;
  if (answer.of_earlier_view)
    return;
  if (!status.lacks(node_parts::membership) && (status.count(metric::view_term) != view.term ||
                                                status.count(metric::view_version) != view.version))
    faults.push_back(
        {fault_ids::view_differs, name,
         fmt::format("{} has another view: term {}, version {}; ask again, and if it "
                     "stays so look at the network between it and the masters",
                     name, status.count(metric::view_term), status.count(metric::view_version))});
  // Members that do not answer have a fault of their own, so a missing connection to them is no
  // further fault.
  else if (!status.lacks(node_parts::directory) && status.count(metric::links) + 1 < answering)
    faults.push_back({fault_ids::links_missing, name,
                      fmt::format("{} is connected to {} of {} other nodes; look at the network "
                                  "between them",
                                  name, status.count(metric::links), answering - 1)});
}

/// Adds the faults of one node that was asked.
/// @param answering How many of the view's nodes answer.
void add_faults(const node_answer& answer, const discovery::view& view, std::size_t answering,
                std::vector<cluster_fault>& faults) {
  const auto& name = answer.member.name;
  if (answer.untried)
    return;
  if (!answer.status) {
    faults.push_back({fault_ids::node_silent, name,
                      fmt::format("{} does not answer ({}); its pages are misses until it does",
                                  name, answer.fault.message)});
    return;
  }
  const auto& status = *answer.status;
  if (!status.is(metric::ready))
    faults.push_back({fault_ids::node_unready, name,
                      fmt::format("{} is not ready: {}", name, status.unready_reason)});
  if (status.self.inc != answer.member.inc)
    faults.push_back({fault_ids::node_restarted, name,
                      name + " was started again since this view was made; the next view has it"});
  add_apart(answer, view, answering, faults);
  add_own(status, faults);
}

using names_by_value = std::map<std::string, std::vector<std::string>>;

/// Returns the text of values and the nodes that have them, such as "1.0 (a, b), 1.1 (c)".
std::string values_text(const names_by_value& values) {
  std::vector<std::string> parts;
  for (const auto& [value, names] : values)
    parts.push_back(fmt::format("{} ({})", value, fmt::join(names, ", ")));
  return fmt::format("{}", fmt::join(parts, ", "));
}

/// Adds versions and options in which members differ.
void add_differences(const std::vector<node_answer>& answers, std::vector<cluster_fault>& faults) {
  names_by_value versions;
  std::map<std::string, names_by_value> options;
  for (const auto& answer : answers) {
    if (!answer.status)
      continue;
    versions[answer.status->version].push_back(answer.member.name);
    for (const auto& [option, value] : answer.status->common_options)
      options[option][value].push_back(answer.member.name);
  }
  if (versions.size() > 1)
    faults.push_back({fault_ids::version_differs, "",
                      fmt::format("members run different versions: {}; finish the upgrade",
                                  values_text(versions))});
  for (const auto& [option, values] : options)
    if (values.size() > 1)
      faults.push_back({fault_ids::option_differs, "",
                        fmt::format("members differ in {}: {}; set it alike and start those nodes "
                                    "again",
                                    option, values_text(values))});
}

/// Adds a fault for each node whose clock differs from that of the first node. The time between
/// question and answer limits how exactly a node's clock is known.
void add_clocks(const std::vector<node_answer>& answers, std::vector<cluster_fault>& faults) {
  struct offset {
    const node_answer* of = nullptr;
    /// Bounds of the difference: the node's clock less this process's, in ms.
    std::int64_t least = 0, most = 0;
  };
  std::vector<offset> offsets;
  for (const auto& answer : answers)
    if (answer.status && answer.status->unix_ms != 0) {
      const auto at = static_cast<std::int64_t>(answer.status->unix_ms);
      offsets.push_back({&answer, at - static_cast<std::int64_t>(answer.answered_ms),
                         at - static_cast<std::int64_t>(answer.asked_ms)});
    }
  for (const auto& each : offsets) {
    const auto& first = offsets.front();
    const auto apart = std::max(each.least - first.most, first.least - each.most);
    if (apart <= static_cast<std::int64_t>(clock_tolerance_ms))
      continue;
    const bool ahead = each.least > first.most;
    faults.push_back(
        {fault_ids::clock_differs, each.of->member.name,
         fmt::format("the clock of {} is {:.1f} s {} that of {}; look at NTP on both hosts",
                     each.of->member.name, static_cast<double>(apart) / 1000,
                     ahead ? "ahead of" : "behind", first.of->member.name)});
  }
}

/// A fault for the parts that a status or a report lacks.
node_fault incomplete(const std::vector<std::string>& silent) {
  const bool one = silent.size() == 1;
  return {fault_ids::status_incomplete,
          fmt::format("its {} {} not answer within 1 s: what {} is not in this status",
                      fmt::join(silent, ", "), one ? "does" : "do",
                      one ? "it counts, and whether it is well,"
                          : "they count, and whether they are well,"),
          "ask again; if it stays so, look at its log, and at the load of its host: a busy host "
          "makes several actors late at once"};
}

} // namespace

bool is_master(const discovery::view& view, const std::string& name) {
  return std::find(view.masters.begin(), view.masters.end(), name) != view.masters.end();
}

std::vector<cluster_fault> faults_of(const node_status& asked, const discovery::view& view,
                                     const std::vector<node_answer>& answers) {
  std::vector<cluster_fault> faults;
  if (view.members.empty())
    faults.push_back(
        {fault_ids::not_in_cluster, asked.self.name,
         fmt::format("{} is in no cluster: {}", asked.self.name, asked.unready_reason)});
  if (view.members.empty())
    add_own(asked, faults);
  add_fragment(view, faults);
  add_missing(asked, view, answers, faults);
  const auto answering = static_cast<std::size_t>(
      std::count_if(answers.begin(), answers.end(),
                    [](const node_answer& answer) { return answer.status.has_value(); }));
  std::size_t masters_well = 0;
  for (const auto& answer : answers) {
    add_faults(answer, view, answering, faults);
    masters_well += (answer.status || answer.untried) && is_master(view, answer.member.name);
  }
  add_differences(answers, faults);
  add_clocks(answers, faults);
  if (view.masters.size() >= 3 && masters_well <= view.masters.size() / 2)
    faults.push_back(
        {fault_ids::no_majority, "",
         fmt::format("{} of {} masters answer, no majority: nobody can join or leave until those "
                     "who are left have made a view without them; start the others again",
                     masters_well, view.masters.size())});
  return faults;
}

std::string state_of(const node_answer& answer) {
  if (!answer.status)
    return std::string(to_string(answer.fault.code));
  if (!answer.status->is(metric::ready))
    return "unready: " + answer.status->unready_reason;
  const bool draining = answer.status->lacks(node_parts::membership)
                            ? answer.member.draining
                            : answer.status->is(metric::draining);
  return draining ? "draining" : "ready";
}

std::string since_of(const discovery::departed& who) {
  return time_text(who.since_ms);
}

std::string time_text(std::uint64_t unix_ms) {
  const auto seconds = static_cast<std::time_t>(unix_ms / 1000);
  return fmt::format("{:%Y-%m-%d %H:%M:%S} UTC", fmt::gmtime(seconds));
}

std::string sentence_of(const node_fault& fault) {
  return fmt::format("{}{}{}{}", fault.what, fault.fix.empty() ? "" : "; ", fault.fix,
                     fault.since_ms == 0 ? "" : " (since " + time_text(fault.since_ms) + ")");
}

std::vector<node_fault> own_faults_of(const node_report& report) {
  std::vector<node_fault> all;
  if (!report.silent.empty())
    all.push_back(incomplete(report.silent));
  for (const auto* part : {&report.membership.faults, &report.disk.faults, &report.links.faults})
    all.insert(all.end(), part->begin(), part->end());
  return all;
}

std::vector<std::string> fault_ids_of(const node_status& status) {
  std::vector<std::string> ids;
  for (const auto& each : own_faults_of(status))
    ids.push_back(each.id);
  return ids;
}

std::string role_of(const node_answer& answer, const discovery::view& view) {
  if (answer.status && answer.status->is(metric::is_leader))
    return "leader";
  return is_master(view, answer.member.name) ? "master" : "member";
}

} // namespace peercache::link
