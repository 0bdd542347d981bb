#include "discovery/former_rings.hpp"

#include <gtest/gtest.h>

namespace peercache::discovery {
namespace {

using namespace std::chrono_literals;

former_rings::ring_ptr ring_of(std::size_t members) {
  std::vector<member> all(members);
  for (std::size_t i = 0; i < members; ++i)
    all[i].id = node_id{i + 1};
  return std::make_shared<const hash_ring>(all);
}

std::vector<std::size_t> sizes(const std::vector<const hash_ring*>& rings) {
  std::vector<std::size_t> counts;
  for (const auto* ring : rings)
    counts.push_back(ring->members());
  return counts;
}

using counts = std::vector<std::size_t>;

TEST(former_rings, are_asked_newest_first_until_their_time_is_over) {
  const former_rings::time_point begin{1h};
  former_rings rings;
  EXPECT_TRUE(rings.asked_at(begin).empty());
  rings.remember(ring_of(1), begin);
  rings.remember(ring_of(2), begin + 10ms);
  EXPECT_EQ(sizes(rings.asked_at(begin + former_owners_asked - 1ms)), (counts{2, 1}));
  EXPECT_EQ(sizes(rings.asked_at(begin + former_owners_asked)), (counts{2}));
  EXPECT_EQ(sizes(rings.asked_at(begin + former_owners_asked + 10ms)), counts{});
  rings.remember(ring_of(3), begin + former_owners_asked + 1ms);
  EXPECT_EQ(sizes(rings.asked_at(begin + former_owners_asked + 1ms)), (counts{3, 2}));
}

TEST(former_rings, of_many_in_a_short_time_the_oldest_and_the_newest_are_kept) {
  const former_rings::time_point begin{1h};
  former_rings rings;
  for (std::size_t members = 1; members <= 9; ++members)
    rings.remember(ring_of(members), begin + members * 1ms);
  EXPECT_EQ(sizes(rings.asked_at(begin + 10ms)), (counts{9, 8, 7, 1}));
}

} // namespace
} // namespace peercache::discovery
