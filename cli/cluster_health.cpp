#include "cli/cluster_health.hpp"

#include "cli/members.hpp"
#include "common/unix_time.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace peercache::cli {

namespace {

node_answer ask(const discovery::member& member, const global_options& globals) {
  node_answer answer{member, {}, {}};
  answer.asked_ms = unix_ms();
  auto admin = connect_member(member, globals);
  auto status = admin ? (*admin)->status() : result<client::node_status>(admin.error());
  answer.answered_ms = unix_ms();
  if (status)
    answer.status = *status;
  else
    answer.fault = status.error();
  return answer;
}

} // namespace

std::vector<node_answer> ask_all(const discovery::view& view, const global_options& globals) {
  std::vector<node_answer> answers(view.members.size());
  several_at_a_time(answers.size(),
                    [&](std::size_t i) { answers[i] = ask(view.members[i], globals); });
  std::sort(answers.begin(), answers.end(), [](const node_answer& a, const node_answer& b) {
    return discovery::natural_less(a.member.name, b.member.name);
  });
  return answers;
}

error silent_part(const client::node_status& status, const char* part) {
  return {errc::timed_out, fmt::format("the {} of {} does not answer its node within 1 s; ask "
                                       "again, and if it stays so look at the node's log",
                                       part, status.self.name)};
}

exit_code fail_for_silent(const global_options& globals, const client::node_status& status,
                          const char* part) {
  fail(globals, silent_part(status, part));
  return exit_code::degraded;
}

nlohmann::json to_json(const cluster_fault& fault) {
  return {{"id", fault.id}, {"node", fault.node}, {"text", fault.text}};
}

nlohmann::json to_json(const discovery::departed& who) {
  return {{"name", who.name},
          {"host", who.host},
          {"control_port", who.control_port},
          {"since_unix_ms", who.since_ms},
          {"why", to_string(who.why)}};
}

nlohmann::json status_json(const client::node_status& status, const discovery::view& view,
                           const std::vector<node_answer>& answers,
                           const std::vector<cluster_fault>& faults) {
  auto data = to_json(status);
  data["masters"] = view.masters;
  data["fragment"] = view.fragment();
  data["masters_lost"] = view.masters_lost();
  data["gone"] = nlohmann::json::array();
  for (const auto& each : view.gone)
    data["gone"].push_back(to_json(each));
  data["missing_seeds"] = status.membership.missing_seeds;
  data["nodes"] = nlohmann::json::array();
  for (const auto& answer : answers)
    data["nodes"].push_back({{"name", answer.member.name},
                             {"state", state_of(answer)},
                             {"role", role_of(answer, view)}});
  data["degraded"] = !faults.empty();
  data["faults"] = nlohmann::json::array();
  for (const auto& fault : faults)
    data["faults"].push_back(to_json(fault));
  return data;
}

} // namespace peercache::cli
