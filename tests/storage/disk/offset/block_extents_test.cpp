#include "storage/disk/offset/block_extents.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

namespace peercache::storage {
namespace {

TEST(block_extents, none_is_free_at_first) {
  block_extents extents(100);
  EXPECT_FALSE(extents.allocate(1));
  EXPECT_EQ(extents.free_blocks(), 0u);
  EXPECT_EQ(extents.largest(), 0u);
}

TEST(block_extents, the_smallest_hole_that_fits_is_taken_and_the_lowest_of_those) {
  block_extents extents(100);
  extents.free(0, 10);
  extents.free(20, 5);
  extents.free(40, 5);
  EXPECT_EQ(extents.allocate(4), 20u);
  EXPECT_EQ(extents.allocate(5), 40u);
  EXPECT_EQ(extents.allocate(6), 0u);
  EXPECT_FALSE(extents.allocate(5));
  EXPECT_EQ(extents.free_in_smaller(5), 5u);
}

TEST(block_extents, agree_with_a_map_of_blocks_under_random_operations) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    constexpr std::uint64_t blocks = 400;
    block_extents extents(blocks);
    extents.free(0, blocks);
    std::vector<bool> taken(blocks, false);
    std::map<std::uint64_t, std::uint64_t> held;
    for (int step = 0; step < 3000; ++step) {
      if (random() % 2 == 0) {
        const auto count = 1 + random() % 40;
        const auto first = extents.allocate(count);
        std::uint64_t run = 0;
        std::uint64_t longest = 0;
        for (const bool busy : taken)
          longest = std::max(longest, run = busy ? 0 : run + 1);
        ASSERT_EQ(first.has_value(), longest >= count);
        for (std::uint64_t i = 0; first && i < count; ++i) {
          ASSERT_FALSE(taken[*first + i]);
          taken[*first + i] = true;
        }
        if (first)
          held[*first] = count;
      } else if (!held.empty()) {
        const auto gone = std::next(held.begin(), static_cast<long>(random() % held.size()));
        extents.free(gone->first, gone->second);
        for (std::uint64_t i = 0; i < gone->second; ++i)
          taken[gone->first + i] = false;
        held.erase(gone);
      }
      const auto free = static_cast<std::uint64_t>(std::count(taken.begin(), taken.end(), false));
      ASSERT_EQ(extents.free_blocks(), free);
      ASSERT_EQ(extents.free_in_smaller(blocks + 1), free);
    }
    for (const auto& [first, count] : held)
      extents.free(first, count);
    EXPECT_EQ(extents.holes(), 1u);
    EXPECT_EQ(extents.largest(), blocks);
  }
}

TEST(block_extents, blocks_are_taken_out_of_the_middle_of_a_hole) {
  block_extents extents(10);
  extents.free(0, 10);
  extents.take(3, 4);
  EXPECT_EQ(extents.holes(), 2u);
  EXPECT_EQ(extents.largest(), 3u);
  extents.free(3, 4);
  EXPECT_EQ(extents.holes(), 1u);
}

TEST(block_extents, freeing_what_is_free_is_a_fault_of_ours) {
  block_extents extents(10);
  extents.free(2, 4);
  EXPECT_DEATH(extents.free(4, 1), "");
  EXPECT_DEATH(extents.free(0, 3), "");
  EXPECT_DEATH(extents.take(5, 2), "");
}

} // namespace
} // namespace peercache::storage
