#pragma once

#include "actors/clearing/cleared_spaces.hpp"

#include <algorithm>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <vector>

namespace peercache::actors::cleared_spaces_test {

inline const auto llama = space_named("llama");
inline const auto qwen = space_named("qwen");

inline discovery::member named(const std::string& name, std::uint64_t life = 1) {
  discovery::member member;
  member.name = name;
  member.id = node_id_of(name);
  member.inc = {member.id.value, life};
  return member;
}

inline discovery::view view_of(std::uint64_t version, std::vector<discovery::member> members) {
  discovery::view view;
  view.term = 1;
  view.version = version;
  std::sort(members.begin(), members.end(),
            [](const auto& a, const auto& b) { return a.id < b.id; });
  view.members = std::move(members);
  return view;
}

/// What one node knows of cleared spaces, with the shared memory of its epochs.
struct knowing {
  discovery::member self;
  std::unique_ptr<storage::epoch_block> memory = std::make_unique<storage::epoch_block>();
  cleared_spaces spaces;

  explicit knowing(const std::string& name, std::uint64_t life = 1)
      : self(named(name, life)), spaces(storage::epoch_table(*memory), self.inc) {}
};

/// Exchanges what two nodes know of cleared spaces, as their gateways do when `asker` asks `other`.
inline void tell(knowing& asker, knowing& other) {
  auto question = cleared_spaces::decode_telling(asker.spaces.tell(other.self.inc));
  ASSERT_TRUE(question);
  ASSERT_TRUE(other.spaces.hear(*question));
  auto answer = cleared_spaces::decode_telling(other.spaces.tell(question->from));
  ASSERT_TRUE(answer);
  ASSERT_TRUE(asker.spaces.hear(*answer));
}

using strings = std::vector<std::string>;

/// Has each node adopt a view whose members are all of these nodes.
inline void meet(std::uint64_t version, std::vector<knowing*> nodes) {
  std::vector<discovery::member> members;
  for (const auto* node : nodes)
    members.push_back(node->self);
  for (auto* node : nodes)
    node->spaces.adopt(view_of(version, members));
}

} // namespace peercache::actors::cleared_spaces_test
