#include "cli/cluster_history.hpp"

#include "common/fault_ids.hpp"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

namespace peercache::cli {

namespace {

bool is_incident(const link::node_event& event) {
  return std::any_of(fault_ids::all.begin(), fault_ids::all.end(),
                     [&](std::string_view id) { return id == event.kind; });
}

node_memory ask_memory(const discovery::member& member, const global_options& globals) {
  node_memory memory{member, {}};
  auto admin = client::admin_client::connect(member.host, member.control_port, globals.cluster,
                                             globals.timeout(), globals.tls);
  if (!admin)
    return memory;
  if (auto said = (*admin)->history())
    memory.said = std::move(*said);
  return memory;
}

} // namespace

std::vector<node_memory> ask_memories(const discovery::view& view, const global_options& globals) {
  std::vector<node_memory> all(view.members.size());
  several_at_a_time(all.size(),
                    [&](std::size_t i) { all[i] = ask_memory(view.members[i], globals); });
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return discovery::natural_less(a.member.name, b.member.name);
  });
  return all;
}

std::vector<link::node_event> events_of(const std::vector<node_memory>& memories,
                                        const std::string& asked) {
  std::vector<link::node_event> all;
  for (const auto& memory : memories)
    if (memory.said)
      for (const auto& event : memory.said->events)
        if (memory.member.name == asked || is_incident(event))
          all.push_back(event);
  std::stable_sort(all.begin(), all.end(),
                   [](const auto& a, const auto& b) { return a.unix_ms < b.unix_ms; });
  return all;
}

nlohmann::json to_json(const link::node_event& event) {
  return {{"unix_ms", event.unix_ms},
          {"kind", event.kind},
          {"node", event.node},
          {"text", event.text},
          {"over", event.over}};
}

std::optional<link::history_point> newest_of(const link::history_report& said) {
  link::history_point newest;
  if (said.points.size() < sizeof newest || said.points.size() % sizeof newest != 0)
    return {};
  std::memcpy(static_cast<void*>(&newest), said.points.data() + said.points.size() - sizeof newest,
              sizeof newest);
  return newest;
}

} // namespace peercache::cli
