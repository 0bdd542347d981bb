// Pages of a page_pool that are held: eviction passes them over, other ends of a page do not.

#include "storage/page_pool.hpp"

#include "heap_pool.hpp"

#include <gtest/gtest.h>

namespace peercache::storage::page_pool_holds_test {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t granule = limits::granule_bytes;
constexpr holder_tag anna{77};

class page_pool_holds : public testing::TestWithParam<eviction_kind> {
protected:
  page_pool_holds() {
    memory.holds().limit(16);
    pool.tell_time(now);
  }

  commit_outcome put(std::uint64_t number, std::uint32_t length = granule) {
    const auto slot = pool.reserve(length, victims);
    EXPECT_TRUE(slot);
    const fill page{*slot, key_of(number), length, number + 1};
    memory.slots().fill(page.slot, page.key, page.length_bytes, page.checksum);
    commit_outcome outcome;
    pool.commit({&page, 1}, {&outcome, 1}, fill_origin::producer);
    return outcome;
  }
  void put_all(std::uint64_t first, std::uint64_t end) {
    for (auto number = first; number < end; ++number)
      put(number);
  }
  hold_outcome hold(std::uint64_t number) {
    const auto page = pool.find(key_of(number));
    return page ? pool.hold(page->slot, page->gen, anna, 2s) : hold_outcome::gone;
  }
  bool has(std::uint64_t number) const { return pool.find(key_of(number)).has_value(); }
  void pass(std::chrono::milliseconds time) { pool.tell_time(now += time); }

  heap_pool memory{64, false};
  page_pool pool{memory.slots(),
                 make_eviction_policy(GetParam(), 64ull * granule),
                 {.free_low_bytes = 1, .free_high_bytes = 1, .holds = memory.holds()}};
  hold_table::time_point now{100h};
  std::vector<evicted> victims;
};

TEST_P(page_pool_holds, a_held_page_outlives_ten_times_the_pool_and_goes_afterwards) {
  put_all(0, 64);
  for (std::uint64_t number = 0; number < 16; ++number)
    ASSERT_EQ(hold(number), hold_outcome::held);
  put_all(100, 740);
  for (std::uint64_t number = 0; number < 16; ++number)
    EXPECT_TRUE(has(number)) << number;
  pass(2100ms);
  pool.evict_ahead(victims, nullptr, 64 * granule);
  for (std::uint64_t number = 0; number < 16; ++number)
    EXPECT_FALSE(has(number)) << number;
}

TEST_P(page_pool_holds, eviction_ahead_of_need_passes_held_pages_over) {
  put_all(0, 64);
  for (std::uint64_t number = 0; number < 16; ++number)
    ASSERT_EQ(hold(number), hold_outcome::held);
  pool.evict_ahead(victims, nullptr, 48 * granule);
  EXPECT_EQ(victims.size(), 48u);
  for (std::uint64_t number = 0; number < 16; ++number)
    EXPECT_TRUE(has(number)) << number;
}

TEST_P(page_pool_holds, a_window_is_not_cleared_of_a_held_page) {
  put_all(0, 64);
  for (std::uint64_t number = 0; number < 64; number += 4)
    ASSERT_EQ(hold(number), hold_outcome::held);
  EXPECT_FALSE(pool.reserve(4 * granule, victims)) << "each window of four has a held page";
  for (std::uint64_t number = 0; number < 64; number += 4)
    EXPECT_TRUE(has(number)) << number;
  pass(2100ms);
  EXPECT_TRUE(pool.reserve(4 * granule, victims));
}

TEST_P(page_pool_holds, the_share_is_refused_and_comes_back_with_a_release) {
  put_all(0, 64);
  for (std::uint64_t number = 0; number < 16; ++number)
    ASSERT_EQ(hold(number), hold_outcome::held);
  EXPECT_EQ(hold(20), hold_outcome::refused);
  EXPECT_EQ(pool.held().pages, 16u);
  const auto page = *pool.find(key_of(3));
  EXPECT_FALSE(pool.release_hold(page.slot, {page.gen.value + 2}, anna));
  EXPECT_TRUE(pool.release_hold(page.slot, page.gen, anna));
  EXPECT_EQ(hold(20), hold_outcome::held);
}

TEST_P(page_pool_holds, holds_that_end_by_time_are_counted) {
  put_all(0, 4);
  ASSERT_EQ(hold(0), hold_outcome::held);
  pass(4s);
  EXPECT_EQ(pool.stats().holds_expired, 1u);
  EXPECT_EQ(pool.held().pages, 0u);
}

TEST_P(page_pool_holds, a_page_that_is_removed_or_replaced_goes_though_it_is_held) {
  put(0);
  put(1);
  ASSERT_EQ(hold(0), hold_outcome::held);
  ASSERT_EQ(hold(1), hold_outcome::held);
  const auto first = *pool.find(key_of(0));
  EXPECT_TRUE(pool.remove(key_of(0)));
  EXPECT_EQ(pool.hold(first.slot, first.gen, anna, 2s), hold_outcome::gone);
  EXPECT_TRUE(put(1, 2 * granule).replaced);
  EXPECT_EQ(pool.held().pages, 0u);
  EXPECT_EQ(hold(1), hold_outcome::held) << "its new page";
}

INSTANTIATE_TEST_SUITE_P(, page_pool_holds,
                         testing::Values(eviction_kind::lru, eviction_kind::s3fifo,
                                         eviction_kind::automatic),
                         [](const auto& each) {
                           return each.param == eviction_kind::lru      ? "lru"
                                  : each.param == eviction_kind::s3fifo ? "s3fifo"
                                                                        : "automatic";
                         });

} // namespace
} // namespace peercache::storage::page_pool_holds_test
