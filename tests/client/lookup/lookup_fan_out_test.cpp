#include "client/calls/chain_windows.hpp"
#include "client/lookup/lookup_plan.hpp"
#include "discovery/view.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <gtest/gtest.h>
#include <map>
#include <string>
#include <vector>

namespace peercache::client {
namespace {

/// Returns `count` members, sorted by id as in a view.
std::vector<discovery::member> members_of(std::size_t count) {
  std::vector<discovery::member> members(count);
  for (std::size_t i = 0; i < count; ++i) {
    members[i].name = "node" + std::to_string(i);
    members[i].id = node_id_of(members[i].name);
    members[i].inc = {1, i + 1};
  }
  std::sort(members.begin(), members.end(),
            [](const auto& a, const auto& b) { return a.id < b.id; });
  return members;
}

lookup_plan::use anyone(node_id) {
  return lookup_plan::use::yes;
}

/// Returns the expected number of nodes that get at least one key, when each of `keys` keys is
/// given to one of `nodes` nodes at random.
double met_at_random(std::size_t nodes, double keys) {
  const auto count = static_cast<double>(nodes);
  return count * (1 - std::pow(1 - 1 / count, keys));
}

/// Returns how many nodes are asked about `count` keys, on average over some batches.
double messages_for(std::size_t count, const discovery::hash_ring& ring) {
  constexpr int batches = 40;
  std::size_t messages = 0;
  for (int batch = 0; batch < batches; ++batch) {
    std::vector<page_key> keys;
    for (std::size_t i = 0; i < count; ++i)
      keys.push_back(key_space{}.key_of(std::to_string(batch) + "/" + std::to_string(i)));
    std::vector<lookup_answer> answers(count);
    lookup_plan plan{keys, answers};
    plan.follow({.view = {1, 1}, .now = &ring});
    messages += plan.next_round(anyone).size();
  }
  return static_cast<double>(messages) / batches;
}

TEST(lookup_fan_out, whether_an_owner_may_be_asked_is_looked_at_once_a_round_for_many_keys) {
  auto members = members_of(3);
  for (std::size_t i = 0; i < members.size(); ++i)
    members[i].id = {i + 1}; // Verdicts are kept by an id's last bits.
  const discovery::hash_ring ring(members);
  std::vector<page_key> keys;
  for (std::size_t i = 0; i < 64; ++i)
    keys.push_back(key_space{}.key_of(std::to_string(i)));
  std::vector<lookup_answer> answers(keys.size());
  lookup_plan plan{keys, answers};
  plan.follow({.view = {1, 1}, .now = &ring});
  for (int round = 0; round < 2; ++round) {
    std::map<node_id, int> looks;
    for (auto& asked : plan.next_round([&](node_id id) {
           ++looks[id];
           return lookup_plan::use::yes;
         }))
      plan.failed(asked, page_status::unreachable);
    EXPECT_EQ(looks.size(), 3u) << round;
    for (const auto& [id, count] : looks)
      EXPECT_EQ(count, 1) << round;
  }
}

TEST(lookup_fan_out, a_chain_costs_few_messages_without_its_head_and_few_more_as_a_whole) {
  constexpr std::size_t batch_keys = 128;
  for (const std::size_t count : {8u, 64u, 100u, 255u, 256u, 1000u}) {
    const discovery::hash_ring ring(members_of(count));
    const auto at_once = messages_for(batch_keys, ring);
    chain_windows windows{count};
    double whole = 0;
    double head = 0;
    for (std::size_t done = 0; done < batch_keys;) {
      const auto window = windows.next(batch_keys - done);
      whole += messages_for(window, ring);
      head = done == 0 ? whole : head;
      done += window;
    }
    std::printf("[ measured ] a chain of 128 keys on %zu nodes: %.1f messages at once; by windows "
                "%.1f without its head, %.1f as a whole\n",
                count, at_once, head, whole);
    EXPECT_LE(whole, 1.3 * at_once);
    if (count >= 64) {
      EXPECT_LE(head, 0.40 * at_once);
    } else {
      EXPECT_EQ(whole, at_once);
    }
  }
}

TEST(lookup_fan_out, a_batch_asks_fewer_nodes_than_its_keys_have_first_owners) {
  constexpr std::size_t batch_keys = 128;
  constexpr int batches = 100;
  for (auto [count, share] : {std::pair{20u, 0.85}, {100u, 0.72}, {1000u, 0.90}}) {
    const discovery::hash_ring ring(members_of(count));
    owners_known known{.view = {1, 1}, .now = &ring};
    std::size_t messages = 0;
    double best_us = 1e9;
    for (int batch = 0; batch < batches; ++batch) {
      std::vector<page_key> keys;
      for (std::size_t i = 0; i < batch_keys; ++i)
        keys.push_back(key_space{}.key_of(std::to_string(batch) + "/" + std::to_string(i)));
      std::vector<lookup_answer> answers(batch_keys);
      const auto start = std::chrono::steady_clock::now();
      lookup_plan plan{keys, answers};
      plan.follow(known);
      messages += plan.next_round(anyone).size();
      const auto took = std::chrono::steady_clock::now() - start;
      best_us = std::min(best_us, std::chrono::duration<double, std::micro>(took).count());
    }
    const auto asked = static_cast<double>(messages) / batches;
    std::printf("[ measured ] 128 keys on %u nodes: %.1f messages, planned in %.1f us\n", count,
                asked, best_us);
    EXPECT_LE(asked, share * met_at_random(count, batch_keys));
  }
}

TEST(lookup_fan_out, many_keys_on_few_nodes_are_spread_as_the_ring_spreads_them) {
  const discovery::hash_ring ring(members_of(5));
  std::vector<page_key> keys;
  for (std::size_t i = 0; i < 4096; ++i)
    keys.push_back(key_space{}.key_of(std::to_string(i)));
  std::map<node_id, std::size_t> first;
  std::array<node_id, 1> owner;
  for (const auto& key : keys) {
    ASSERT_EQ(ring.owners(key, owner), 1u);
    first[owner[0]] += 1;
  }
  std::vector<lookup_answer> answers(keys.size());
  lookup_plan plan{keys, answers};
  plan.follow({.view = {1, 1}, .now = &ring});
  std::map<node_id, std::size_t> asked;
  for (const auto& share : plan.next_round(anyone))
    asked[share.owner] += share.indices.size();
  EXPECT_EQ(asked, first);
}

} // namespace
} // namespace peercache::client
