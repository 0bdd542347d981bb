#include "storage/extent_allocator.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

namespace peercache::storage::extent_allocator_test {
namespace {

constexpr std::uint32_t largest = limits::granules_per_page_max;

TEST(extent_allocator, a_new_pool_is_one_extent) {
  extent_allocator pool(1000);
  EXPECT_EQ(pool.free_granules(), 1000u);
  EXPECT_EQ(pool.extents(), 1u);
  EXPECT_EQ(pool.extent_at(0), 1000u);
}

TEST(extent_allocator, an_exact_hole_is_taken_before_a_larger_one) {
  extent_allocator pool(100);
  for (std::uint32_t i = 0; i < 10; ++i)
    ASSERT_EQ(pool.allocate(10), i * 10);
  pool.free(20, 10);
  pool.free(50, 20);
  EXPECT_EQ(pool.allocate(10), 20u);
}

TEST(extent_allocator, neighbours_are_joined_on_both_sides) {
  extent_allocator pool(30);
  for (int i = 0; i < 3; ++i)
    ASSERT_TRUE(pool.allocate(10));
  EXPECT_EQ(pool.free(0, 10), 0u);
  EXPECT_EQ(pool.free(20, 10), 20u);
  EXPECT_EQ(pool.extents(), 2u);
  EXPECT_EQ(pool.free(10, 10), 0u);
  EXPECT_EQ(pool.extent_at(0), 30u);
  EXPECT_EQ(pool.extents(), 1u);
}

TEST(extent_allocator, a_page_prefers_a_multiple_of_its_size) {
  extent_allocator pool(64);
  ASSERT_EQ(pool.allocate(1), 0u);
  EXPECT_EQ(pool.allocate(8), 8u);
  EXPECT_EQ(pool.extent_at(1), 7u);
}

TEST(extent_allocator, a_hole_that_is_too_small_is_not_used) {
  extent_allocator pool(20);
  ASSERT_EQ(pool.allocate(10), 0u);
  ASSERT_EQ(pool.allocate(10), 10u);
  EXPECT_EQ(pool.allocate(1), std::nullopt);
  pool.free(5, 5);
  EXPECT_EQ(pool.allocate(6), std::nullopt);
  EXPECT_EQ(pool.allocate(5), 5u);
}

TEST(extent_allocator, a_chosen_range_is_cut_out_of_its_extent) {
  extent_allocator pool(100);
  pool.allocate_at(0, 40, 20);
  EXPECT_EQ(pool.extent_at(0), 40u);
  EXPECT_EQ(pool.extent_at(60), 40u);
  EXPECT_EQ(pool.free_granules(), 80u);
}

TEST(extent_allocator, the_largest_page_fits_into_a_pool_of_its_size) {
  extent_allocator pool(largest);
  EXPECT_EQ(pool.allocate(largest), 0u);
  EXPECT_EQ(pool.allocate(1), std::nullopt);
  pool.free(0, largest);
  EXPECT_EQ(pool.extents(), 1u);
}

TEST(extent_allocator_death, freeing_what_is_free_is_our_bug) {
  extent_allocator pool(10);
  auto first = pool.allocate(4);
  ASSERT_TRUE(first);
  pool.free(*first, 4);
  EXPECT_DEATH(pool.free(*first, 4), "notes_");
}

/// A plain map of pages, with which the tests compare the allocator.
class model {
public:
  explicit model(std::uint32_t granules) : granules_(granules) {}

  bool overlaps(std::uint32_t first, std::uint32_t count) const {
    auto after = pages_.lower_bound(first);
    if (after != pages_.end() && after->first < first + count)
      return true;
    return after != pages_.begin() && std::prev(after)->first + std::prev(after)->second > first;
  }

  /// Returns the length of the longest gap between pages, and the number of gaps.
  std::pair<std::uint32_t, std::uint32_t> gaps() const {
    std::uint32_t at = 0, longest = 0, number = 0;
    auto gap = [&](std::uint32_t end) {
      longest = std::max(longest, end - at);
      number += end > at;
    };
    for (auto [first, count] : pages_) {
      gap(first);
      at = first + count;
    }
    gap(granules_);
    return {longest, number};
  }

  std::map<std::uint32_t, std::uint32_t> pages_;

private:
  std::uint32_t granules_;
};

void run_against_model(std::uint64_t seed, std::uint32_t granules) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  extent_allocator pool(granules);
  model expected(granules);
  for (int step = 0; step < 4000; ++step) {
    auto filling = random() % 100 < (step / 500 % 2 == 0 ? 70u : 35u);
    if (filling) {
      auto count = 1 + static_cast<std::uint32_t>(random() % (random() % 8 == 0 ? largest : 64));
      auto longest = expected.gaps().first;
      auto first = pool.allocate(count);
      ASSERT_EQ(first.has_value(), longest >= count) << "count " << count;
      if (!first)
        continue;
      ASSERT_LE(*first + count, granules);
      ASSERT_FALSE(expected.overlaps(*first, count));
      expected.pages_.emplace(*first, count);
    } else if (!expected.pages_.empty()) {
      auto page = expected.pages_.lower_bound(static_cast<std::uint32_t>(random() % granules));
      if (page == expected.pages_.end())
        page = expected.pages_.begin();
      pool.free(page->first, page->second);
      expected.pages_.erase(page);
    }
    ASSERT_EQ(pool.extents(), expected.gaps().second);
  }
  for (auto [first, count] : expected.pages_)
    pool.free(first, count);
  EXPECT_EQ(pool.extents(), 1u);
  EXPECT_EQ(pool.extent_at(0), granules);
}

TEST(extent_allocator, agrees_with_a_map_of_pages) {
  auto seed = std::random_device{}();
  RecordProperty("seed", std::to_string(seed));
  for (std::uint64_t i = 0; i < 4; ++i)
    run_against_model(seed + i, i % 2 == 0 ? 100'000 : 3'000);
}

} // namespace
} // namespace peercache::storage::extent_allocator_test
