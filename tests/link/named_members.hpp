#pragma once

#include "link/protocol/topology.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace peercache::link {

inline discovery::member member_named(const std::string& name, std::uint64_t inc) {
  discovery::member member;
  member.name = name;
  member.id = node_id_of(name);
  member.inc = {1, inc};
  member.host = "127.0.0.1";
  return member;
}

/// Returns a topology of these members with these directory handles (null: no connection).
inline topology_ptr topology_of(std::vector<std::pair<discovery::member, directory_actor>> nodes,
                                std::uint64_t version) {
  std::sort(nodes.begin(), nodes.end(),
            [](const auto& a, const auto& b) { return a.first.id < b.first.id; });
  auto made = std::make_shared<topology>();
  made->view.term = 1;
  made->view.version = version;
  for (const auto& [member, directory] : nodes) {
    made->view.members.push_back(member);
    peer known;
    known.self = member;
    known.directory = directory;
    made->peers.push_back(known);
  }
  made->view.masters = {made->view.members.front().name};
  made->ring = discovery::hash_ring{made->view.members};
  return made;
}

} // namespace peercache::link
