#include "common/checksum.hpp"
#include "discovery/hash_ring.hpp"
#include "discovery/placement.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <map>
#include <random>
#include <set>
#include <span>
#include <unordered_map>
#include <vector>

namespace peercache::discovery::hash_ring_test {
namespace {

page_key key_at(std::uint64_t position) {
  page_key key;
  std::memcpy(key.bytes.data(), &position, sizeof position);
  return key;
}

std::vector<member> members_named(std::size_t count, const std::string& prefix = "node") {
  std::vector<member> members;
  for (std::size_t i = 1; i <= count; ++i) {
    auto name = prefix + std::to_string(i);
    members.push_back({.name = name, .id = node_id_of(name), .inc = {i, i}, .host = "h"});
  }
  return members;
}

/// Returns the largest share of keys that a member has, divided by the mean share; measured at
/// evenly spaced positions of the ring.
double max_over_mean(const hash_ring& ring) {
  constexpr std::size_t samples = 2'000'000;
  std::unordered_map<node_id, std::size_t> load;
  node_id owner;
  for (std::size_t i = 0; i < samples; ++i) {
    ring.owners_at(i * (~std::uint64_t{0} / samples), {&owner, 1});
    ++load[owner];
  }
  std::size_t most = 0;
  for (const auto& [id, keys] : load)
    most = std::max(most, keys);
  return static_cast<double>(most) * static_cast<double>(ring.members()) / samples;
}

TEST(hash_ring, shares_are_what_samples_find_and_add_up) {
  const hash_ring ring(members_named(7));
  double first = 0, listed = 0, most = 0;
  for (const auto& share : ring.shares(3)) {
    first += share.first;
    listed += share.listed;
    most = std::max(most, share.first);
  }
  EXPECT_NEAR(first, 1, 1e-9);
  EXPECT_NEAR(listed, 3, 1e-9);
  EXPECT_NEAR(most * 7, max_over_mean(ring), 0.001);
  EXPECT_TRUE(hash_ring().shares(2).empty());
  EXPECT_NEAR(hash_ring(members_named(1)).shares(2).at(0).first, 1, 1e-9);
}

TEST(hash_ring, an_empty_ring_has_no_owners) {
  hash_ring ring;
  node_id out[2];
  EXPECT_EQ(ring.owners(key_at(5), out), 0u);
  EXPECT_FALSE(ring.owns({1}, key_at(5), 2));
}

TEST(hash_ring, owners_are_distinct_and_as_many_as_asked_for_or_there_are) {
  std::mt19937_64 random(3);
  for (std::size_t count : {1, 2, 3, 50}) {
    hash_ring ring(members_named(count));
    for (int i = 0; i < 1000; ++i) {
      node_id out[3];
      auto found = ring.owners_at(random(), out);
      EXPECT_EQ(found, std::min<std::size_t>(3, count));
      EXPECT_EQ(std::set<node_id>(out, out + found).size(), found);
    }
  }
}

TEST(hash_ring, positions_at_both_ends_have_owners) {
  hash_ring ring(members_named(3));
  node_id first;
  node_id last;
  EXPECT_EQ(ring.owners_at(0, {&first, 1}), 1u);
  EXPECT_EQ(ring.owners_at(~std::uint64_t{0}, {&last, 1}), 1u);
  EXPECT_EQ(first, last) << "behind the last virtual node comes the first one";
}

/// Nodes of different releases have to agree on the owners.
TEST(hash_ring, owners_are_the_next_members_clockwise) {
  std::mt19937_64 random(11);
  for (const std::size_t count : {1, 2, 3, 9}) {
    const auto members = members_named(count);
    std::map<std::uint64_t, node_id> points;
    for (const auto& each : members)
      for (std::uint64_t replica = 0; replica < hash_ring::virtual_nodes; ++replica) {
        std::array<std::uint64_t, 2> words{each.id.value, replica};
        points[checksum_of(std::as_bytes(std::span(words)))] = each.id;
      }
    const hash_ring ring(members);
    std::vector<std::uint64_t> positions{0, ~std::uint64_t{0}};
    for (const auto& [position, id] : points)
      positions.insert(positions.end(), {position, position + 1, random()});
    for (const auto position : positions) {
      std::vector<node_id> expected;
      const auto add = [&](const auto& point) {
        if (std::ranges::find(expected, point.second) == expected.end())
          expected.push_back(point.second);
      };
      std::for_each(points.lower_bound(position), points.end(), add);
      std::ranges::for_each(points, add); // Around the end.
      std::vector<node_id> owners(count);
      ASSERT_EQ(ring.owners_at(position, owners), count);
      ASSERT_EQ(owners, expected) << count << " members, position " << position;
    }
  }
}

TEST(hash_ring, the_order_of_members_does_not_matter) {
  auto members = members_named(20);
  hash_ring one(members);
  std::reverse(members.begin(), members.end());
  hash_ring other(members);
  std::mt19937_64 random(4);
  for (int i = 0; i < 1000; ++i) {
    node_id a[2];
    node_id b[2];
    auto position = random();
    one.owners_at(position, a);
    other.owners_at(position, b);
    EXPECT_TRUE(std::equal(a, a + 2, b));
  }
}

TEST(hash_ring, made_out_of_another_ring_it_is_the_same) {
  std::mt19937_64 random(8);
  auto members = members_named(12);
  hash_ring merged;
  for (int step = 0; step < 300; ++step) {
    // Members come, go, restart and drain, several in one step; now and then all are gone.
    std::vector<member> there;
    for (auto& m : members) {
      m.draining = random() % 4 == 0;
      m.inc.low += random() % 4 == 0;
      if (random() % 5 < static_cast<unsigned>(step) % 6)
        there.push_back(m);
    }
    merged = hash_ring(there, merged);
    const hash_ring whole(there);
    ASSERT_EQ(merged.members(), whole.members());
    for (const auto& m : members)
      ASSERT_EQ(merged.incarnation_of(m.id), whole.incarnation_of(m.id));
    for (int i = 0; i < 200; ++i) {
      node_id a[3], b[3];
      const auto position = i == 0 ? 0 : i == 1 ? ~std::uint64_t{0} : random();
      const auto found = merged.owners_at(position, a);
      ASSERT_EQ(found, whole.owners_at(position, b));
      ASSERT_TRUE(std::equal(a, a + found, b)) << step << " " << position;
    }
    // Rings with equal shares have all virtual nodes at the same positions.
    const auto one = merged.shares(1), other = whole.shares(1);
    ASSERT_TRUE(std::equal(
        one.begin(), one.end(), other.begin(), other.end(),
        [](const auto& x, const auto& y) { return x.id == y.id && x.first == y.first; }));
  }
}

TEST(hash_ring, owns_agrees_with_owners) {
  hash_ring ring(members_named(10));
  std::mt19937_64 random(5);
  for (int i = 0; i < 1000; ++i) {
    auto key = key_at(random());
    node_id out[2];
    ring.owners(key, out);
    for (const auto& m : members_named(10))
      EXPECT_EQ(ring.owns(m.id, key, 2), m.id == out[0] || m.id == out[1]);
  }
}

TEST(hash_ring, load_is_spread_evenly) {
  for (std::size_t count : {3, 10, 100, 1000}) {
    auto ratio = max_over_mean(hash_ring(members_named(count)));
    std::printf("[ measured ] %4zu members: most loaded / mean = %.3f\n", count, ratio);
    // With 160 virtual nodes a member's share scatters by 1/sqrt(160) = 8 %, and the largest of
    // 1000 shares lies beyond three times that.
    EXPECT_LE(ratio, 1.35) << count;
  }
}

TEST(hash_ring, a_join_moves_only_what_the_new_member_gets) {
  std::mt19937_64 random(6);
  for (std::size_t count : {3, 10, 100}) {
    auto members = members_named(count + 1);
    hash_ring after(members);
    members.pop_back();
    hash_ring before(members);
    auto joined = node_id_of("node" + std::to_string(count + 1));
    constexpr int samples = 200'000;
    int moved = 0;
    for (int i = 0; i < samples; ++i) {
      node_id old_owner;
      node_id new_owner;
      auto position = random();
      before.owners_at(position, {&old_owner, 1});
      after.owners_at(position, {&new_owner, 1});
      if (old_owner != new_owner) {
        ++moved;
        EXPECT_EQ(new_owner, joined) << "a key moved between two old members";
      }
    }
    auto share = static_cast<double>(moved) / samples;
    std::printf("[ measured ] join of member %zu moved %.2f %% of the keys\n", count + 1,
                100 * share);
    EXPECT_LE(share, 1.0 / static_cast<double>(count + 1) + 0.05);
  }
}

TEST(placement, nothing_changes_between_equal_rings) {
  hash_ring ring(members_named(5));
  node_id out[2];
  std::mt19937_64 random(8);
  for (int i = 0; i < 1000; ++i)
    EXPECT_EQ(new_owners(ring, ring, key_at(random()), 2, out), 0u);
}

TEST(placement, a_first_view_makes_every_owner_new) {
  node_id out[2];
  EXPECT_EQ(new_owners(hash_ring{}, hash_ring(members_named(5)), key_at(1), 2, out), 2u);
}

TEST(placement, a_restarted_owner_is_told_again) {
  auto members = members_named(4);
  hash_ring before(members);
  members[2].inc = {77, 77};
  hash_ring after(members);
  std::mt19937_64 random(9);
  std::size_t told = 0;
  for (int i = 0; i < 1000; ++i) {
    auto key = key_at(random());
    node_id out[2];
    auto count = new_owners(before, after, key, 2, out);
    EXPECT_EQ(count, after.owns(members[2].id, key, 2) ? 1u : 0u);
    if (count == 1) {
      EXPECT_EQ(out[0], members[2].id);
    }
    told += count;
  }
  EXPECT_GT(told, 300u);
}

TEST(placement, after_a_member_left_its_keys_get_one_new_owner) {
  auto members = members_named(6);
  hash_ring before(members);
  auto gone = members.back().id;
  members.pop_back();
  hash_ring after(members);
  std::mt19937_64 random(10);
  for (int i = 0; i < 1000; ++i) {
    auto key = key_at(random());
    node_id out[2];
    EXPECT_EQ(new_owners(before, after, key, 2, out), before.owns(gone, key, 2) ? 1u : 0u);
  }
}

} // namespace
} // namespace peercache::discovery::hash_ring_test
