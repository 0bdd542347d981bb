// Tests of what a node knows of the blocks that engines of its host hold on their GPUs.

#include "actors/overlap/gpu_window.hpp"

#include <gtest/gtest.h>

#include <map>
#include <vector>

namespace peercache::actors::gpu_window_test {
namespace {

using prefixes = std::vector<std::uint64_t>;

link::gpu_report stored(prefixes keys, std::uint32_t rank = link::gpu_report::no_rank) {
  return {rank, false, {}, std::move(keys)};
}

link::gpu_report evicted(prefixes keys) {
  return {link::gpu_report::no_rank, false, std::move(keys), {}};
}

link::gpu_run leading(const gpu_window& window, prefixes keys, std::uint32_t spaces = 1) {
  return window.leading({spaces, std::move(keys)});
}

TEST(gpu_window, has_what_was_stored_until_it_is_evicted) {
  gpu_window window(100);
  EXPECT_FALSE(leading(window, {1}).knows_any);
  EXPECT_TRUE(window.take(7, stored({1, 2, 3})));
  EXPECT_TRUE(leading(window, {9}).knows_any);
  EXPECT_EQ(leading(window, {1, 2, 3, 4}).blocks, 3u);
  EXPECT_EQ(leading(window, {4, 1, 2}).blocks, 0u);
  EXPECT_TRUE(window.take(7, evicted({2, 8})));
  EXPECT_EQ(leading(window, {1, 2, 3}).blocks, 1u);
  EXPECT_EQ(window.keys(), 2u);
  EXPECT_TRUE(window.take(7, {link::gpu_report::no_rank, true, {}, {5}}));
  EXPECT_EQ(leading(window, {1}).blocks, 0u) << "a new beginning makes all before void";
  EXPECT_EQ(leading(window, {5}).blocks, 1u);
}

TEST(gpu_window, of_a_reporter_goes_with_it) {
  gpu_window window(100);
  window.take(1, stored({1, 2}));
  window.take(2, stored({2, 3}));
  window.drop(1);
  EXPECT_EQ(leading(window, {1}).blocks, 0u);
  EXPECT_EQ(leading(window, {2, 3}).blocks, 2u);
  EXPECT_EQ(window.reporters(), 1u);
  window.drop(2);
  window.drop(3);
  EXPECT_TRUE(window.empty());
  EXPECT_EQ(window.reporters(), 0u);
}

TEST(gpu_window, keeps_to_its_bounds_and_counts_what_it_refuses) {
  gpu_window window(3);
  window.take(1, stored({1, 2, 3, 4, 5}));
  EXPECT_EQ(window.keys(), 3u);
  EXPECT_EQ(window.refused(), 2u);
  window.take(2, stored({1, 4}));
  EXPECT_EQ(window.refused(), 3u) << "a key that another reporter has told of takes no room";
  window.take(1, evicted({3}));
  window.take(1, stored({6}));
  EXPECT_EQ(leading(window, {6}).blocks, 1u);
  for (std::uint64_t id = 3; id <= gpu_window::reporters_max; ++id)
    EXPECT_TRUE(window.take(id, stored({1})));
  EXPECT_FALSE(window.take(1000, stored({1, 2})));
  EXPECT_EQ(window.reporters(), gpu_window::reporters_max);
  EXPECT_EQ(window.refused(), 5u);
  window.drop(5);
  EXPECT_TRUE(window.take(1000, stored({2})));
}

TEST(gpu_window, counts_no_run_that_no_engine_has_alone) {
  gpu_window window(100);
  window.take(1, stored({1, 3}));
  window.take(2, stored({1, 2}));
  EXPECT_EQ(leading(window, {1, 2, 3}).blocks, 2u);
}

TEST(gpu_window, counts_the_pages_of_all_ranks_of_a_group_whoever_tells_of_them) {
  gpu_window window(100);
  window.take(1, stored({10, 20, 30}));
  window.take(2, stored({11, 21}));
  EXPECT_EQ(leading(window, {10, 11, 20, 21, 30, 31}, 2).blocks, 2u);
  window.take(3, stored({31}));
  EXPECT_EQ(leading(window, {10, 11, 20, 21, 30, 31}, 2).blocks, 2u);
}

TEST(gpu_window, tells_ranks_of_data_parallelism_apart) {
  gpu_window window(100);
  window.take(1, stored({1, 2, 3}, 0));
  window.take(2, stored({1}, 4));
  window.take(3, stored({9}, 5));
  const auto run = leading(window, {1, 2, 3, 4});
  EXPECT_EQ(run.blocks, 3u);
  EXPECT_EQ(run.ranks, (std::map<std::uint32_t, std::uint32_t>{{0, 3}, {4, 1}}));
}

} // namespace
} // namespace peercache::actors::gpu_window_test
