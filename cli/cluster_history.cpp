#include "cli/cluster_history.hpp"

#include "cli/members.hpp"
#include "common/fault_ids.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace peercache::cli {

std::vector<node_memory> ask_memories(const discovery::view& view, const global_options& globals) {
  std::vector<node_memory> all(view.members.size());
  for (std::size_t i = 0; i < all.size(); ++i)
    all[i].member = view.members[i];
  ask_members(view.members, globals, [&](std::size_t i, client::admin_client& admin) {
    if (auto said = admin.history())
      all[i].said = std::move(*said);
  });
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
        if (memory.member.name == asked || fault_ids::is_name(event.kind))
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
