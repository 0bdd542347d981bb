// Tests of which pages a page_pool evicts when some pages are also on disk or at another node, and
// of how early it evicts.

#include "storage/page_pool.hpp"

#include "heap_pool.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

namespace peercache::storage::page_pool_victims_test {
namespace {

constexpr std::uint32_t granule = limits::granule_bytes;

/// A pool of 64 pages that evicts by LRU; a test says which pages are kept elsewhere, too.
class page_pool_victims : public testing::Test {
protected:
  page_pool_victims() {
    pool.know_kept([this](slot_id slot) { return elsewhere.contains(numbers.at(slot.value)); });
  }

  slot_id put(std::uint64_t number, fill_origin from = fill_origin::producer) {
    auto slot = pool.reserve(granule, victims, page_pool::spare_mode::only_copies);
    EXPECT_TRUE(slot);
    const fill page{*slot, key_of(number), granule, std::max<std::uint64_t>(number, 1)};
    memory.slots().fill(page.slot, page.key, page.length_bytes, page.checksum);
    commit_outcome outcome;
    pool.commit({&page, 1}, {&outcome, 1}, from);
    numbers[outcome.slot.value] = number;
    return outcome.slot;
  }
  /// Promotes `count` pages, from number 1000 on, and counts for each the read for which it was
  /// promoted.
  void promote(std::uint64_t count) {
    for (std::uint64_t cold = 1000; cold < 1000 + count; ++cold) {
      memory.slots().count_use(put(cold, fill_origin::copy));
      pool.fold_uses(64);
      pool.evict_ahead(victims, nullptr, 4 * granule);
    }
  }

  bool has(std::uint64_t number) const { return pool.find(key_of(number)).has_value(); }

  heap_pool memory{64, false};
  page_pool pool{memory.slots(),
                 make_eviction_policy(eviction_kind::lru, 64ull * granule),
                 {.free_low_bytes = 1, .free_high_bytes = 1}};
  std::map<std::uint32_t, std::uint64_t> numbers; ///< For each slot: the number of its page.
  std::set<std::uint64_t> elsewhere;
  std::vector<evicted> victims;
};

TEST_F(page_pool_victims, a_page_that_is_kept_elsewhere_goes_before_an_older_one_that_is_not) {
  for (std::uint64_t i = 0; i < 64; ++i)
    put(i);
  elsewhere = {5, 9};
  put(100);
  put(101);
  ASSERT_EQ(victims.size(), 2u);
  EXPECT_FALSE(has(5));
  EXPECT_FALSE(has(9));
  EXPECT_TRUE(has(0));
}

TEST(page_pool_watermarks, with_a_low_watermark_of_0_nothing_is_evicted_ahead) {
  heap_pool memory{4, false};
  page_pool pool{memory.slots(),
                 make_eviction_policy(eviction_kind::lru, 4ull * granule),
                 {.free_low_bytes = 0, .free_high_bytes = 1}};
  std::vector<evicted> victims;
  for (std::uint64_t number = 1; number <= 4; ++number) {
    const auto slot = pool.reserve(granule, victims);
    ASSERT_TRUE(slot);
    const fill page{*slot, key_of(number), granule, number};
    memory.slots().fill(page.slot, page.key, page.length_bytes, page.checksum);
    commit_outcome outcome;
    pool.commit({&page, 1}, {&outcome, 1}, fill_origin::producer);
  }
  pool.evict_ahead(victims);
  EXPECT_TRUE(victims.empty());
  EXPECT_TRUE(pool.reserve(granule, victims));
  EXPECT_EQ(victims.size(), 1u) << "room is made when it is asked for";
}

TEST_F(page_pool_victims, the_oldest_goes_when_none_of_the_next_ones_is_kept_elsewhere) {
  for (std::uint64_t i = 0; i < 64; ++i)
    put(i);
  elsewhere = {50};
  put(100);
  ASSERT_EQ(victims.size(), 1u);
  EXPECT_FALSE(has(0));
  EXPECT_TRUE(has(50));
}

TEST_F(page_pool_victims, all_pages_that_are_left_can_go_though_none_is_kept_elsewhere) {
  for (std::uint64_t i = 0; i < 64; ++i)
    put(i);
  for (std::uint64_t i = 100; i < 1000; ++i)
    put(i);
  EXPECT_EQ(pool.stats().pages, 64u);
  EXPECT_EQ(victims.size(), 900u);
}

TEST_F(page_pool_victims, promoted_pages_push_out_what_nobody_has_read_and_is_kept_elsewhere) {
  for (std::uint64_t i = 0; i < 40; ++i)
    put(i);
  for (std::uint64_t i = 0; i < 20; ++i)
    elsewhere.insert(i);
  promote(36);
  for (std::uint64_t cold = 1000; cold < 1036; ++cold)
    EXPECT_TRUE(has(cold)) << cold << ": 60 granules are theirs and those of 24 other pages";
  for (std::uint64_t i = 20; i < 40; ++i)
    EXPECT_TRUE(has(i)) << i << " is the only copy";
}

TEST_F(page_pool_victims, pages_that_come_after_a_scan_push_out_what_it_has_left) {
  promote(60);
  for (std::uint64_t i = 0; i < 32; ++i) {
    elsewhere.insert(i);
    put(i);
    pool.evict_ahead(victims, nullptr, 4 * granule);
  }
  for (std::uint64_t i = 0; i < 32; ++i)
    EXPECT_TRUE(has(i)) << i;
}

TEST_F(page_pool_victims, a_page_that_was_read_and_an_only_copy_do_not_keep_others_in_the_pool) {
  for (std::uint64_t i = 0; i < 40; ++i)
    put(i);
  for (std::uint64_t i = 2; i < 40; ++i)
    elsewhere.insert(i);
  memory.slots().count_use(pool.find(key_of(0))->slot);
  promote(50);
  EXPECT_TRUE(has(0));
  EXPECT_TRUE(has(1));
  for (std::uint64_t cold = 1000; cold < 1050; ++cold)
    EXPECT_TRUE(has(cold)) << cold;
}

TEST_F(page_pool_victims, promoted_pages_push_out_no_page_that_was_read) {
  for (std::uint64_t i = 0; i < 40; ++i) {
    memory.slots().count_use(put(i));
    elsewhere.insert(i);
  }
  pool.fold_uses(64);
  promote(1000);
  for (std::uint64_t i = 0; i < 40; ++i)
    EXPECT_TRUE(has(i)) << i;
}

TEST_F(page_pool_victims, as_much_is_kept_free_as_is_wanted) {
  for (std::uint64_t i = 0; i < 64; ++i)
    put(i);
  EXPECT_FALSE(pool.evict_ahead(victims, nullptr, 10 * granule));
  EXPECT_EQ(victims.size(), 10u);
  EXPECT_FALSE(pool.evict_ahead(victims, nullptr, 0));
  EXPECT_EQ(victims.size(), 10u);
}

} // namespace
} // namespace peercache::storage::page_pool_victims_test
