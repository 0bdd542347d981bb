#include "storage/hold_table.hpp"

#include "heap_pool.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace peercache::storage::hold_table_test {
namespace {

using namespace std::chrono_literals;

constexpr holder_tag anna{0x123456};
constexpr holder_tag bert{0x65432};

class holds_of_a_pool : public testing::Test {
protected:
  holds_of_a_pool() { table.limit(64); }

  hold_outcome hold(std::uint32_t slot, holder_tag who, std::chrono::milliseconds duration,
                    std::uint32_t granules = 1) {
    return table.hold({slot}, granules, who, now, now + duration);
  }
  bool held(std::uint32_t slot) const { return table.is_held({slot}, now); }

  heap_pool memory{256, false};
  hold_table table = memory.holds();
  hold_table::time_point now{std::chrono::hours(100)};
};

TEST_F(holds_of_a_pool, a_hold_ends_at_its_time_and_not_before) {
  ASSERT_EQ(hold(7, anna, 2s), hold_outcome::held);
  now += 2s;
  EXPECT_TRUE(held(7));
  now += 2ms;
  EXPECT_FALSE(held(7));
  EXPECT_TRUE(table.close({7}, now));
}

TEST_F(holds_of_a_pool, a_held_page_is_not_closed_and_a_closed_one_not_held) {
  ASSERT_EQ(hold(7, anna, 2s), hold_outcome::held);
  EXPECT_FALSE(table.close({7}, now));
  EXPECT_TRUE(table.close({8}, now));
  EXPECT_EQ(hold(8, anna, 2s), hold_outcome::gone);
  table.open({8});
  EXPECT_EQ(hold(8, anna, 2s), hold_outcome::held);
}

TEST_F(holds_of_a_pool, whoever_holds_a_page_alone_ends_the_hold) {
  ASSERT_EQ(hold(7, anna, 2s), hold_outcome::held);
  EXPECT_FALSE(table.release({7}, 1, bert, now));
  EXPECT_TRUE(held(7));
  EXPECT_TRUE(table.release({7}, 1, anna, now));
  EXPECT_FALSE(held(7));
  EXPECT_FALSE(table.release({7}, 1, anna, now));
  EXPECT_EQ(table.held(now).pages, 0u);
}

TEST_F(holds_of_a_pool, only_time_ends_holds_that_overlap) {
  ASSERT_EQ(hold(7, anna, 3s), hold_outcome::held);
  ASSERT_EQ(hold(7, bert, 1s), hold_outcome::held);
  EXPECT_FALSE(table.release({7}, 1, anna, now));
  EXPECT_FALSE(table.release({7}, 1, bert, now));
  now += 2900ms;
  EXPECT_TRUE(held(7));
  now += 200ms;
  EXPECT_FALSE(held(7));
  ASSERT_EQ(hold(7, bert, 1s), hold_outcome::held);
  EXPECT_TRUE(table.release({7}, 1, bert, now));
}

TEST_F(holds_of_a_pool, holds_beyond_the_limit_are_refused_until_others_end) {
  ASSERT_EQ(hold(0, anna, 1s, 60), hold_outcome::held);
  EXPECT_EQ(hold(100, anna, 1s, 5), hold_outcome::refused);
  ASSERT_EQ(hold(100, anna, 1s, 4), hold_outcome::held);
  EXPECT_EQ(table.held(now).granules, 64u);
  EXPECT_EQ(hold(100, bert, 5s, 4), hold_outcome::held) << "a longer hold takes no more room";
  EXPECT_EQ(table.held(now).granules, 64u);
  now += 2s;
  table.sweep(now);
  EXPECT_EQ(table.held(now).granules, 4u);
  EXPECT_EQ(hold(0, bert, 1s, 60), hold_outcome::held);
}

TEST_F(holds_of_a_pool, sweeps_count_the_holds_that_only_time_has_ended) {
  ASSERT_EQ(hold(1, anna, 1s, 3), hold_outcome::held);
  ASSERT_EQ(hold(9, anna, 1s, 2), hold_outcome::held);
  ASSERT_TRUE(table.release({9}, 2, anna, now));
  EXPECT_EQ(table.sweep(now).pages, 0u);
  now += 2s;
  const auto over = table.sweep(now);
  EXPECT_EQ(over.pages, 1u);
  EXPECT_EQ(over.granules, 3u);
  EXPECT_EQ(table.sweep(now).pages, 0u);
  EXPECT_FALSE(table.release({1}, 3, anna, now));
}

TEST_F(holds_of_a_pool, a_page_that_is_taken_anyway_leaves_the_account) {
  ASSERT_EQ(hold(7, anna, 2s, 4), hold_outcome::held);
  table.close_anyway({7}, 4, now);
  EXPECT_FALSE(held(7));
  EXPECT_EQ(table.held(now).pages, 0u);
}

TEST_F(holds_of_a_pool, the_end_of_an_old_hold_takes_nothing_from_the_account_of_new_ones) {
  ASSERT_EQ(hold(7, anna, 1s, 4), hold_outcome::held);
  now += 1s + 32 * 512ms; // A hold that begins now has the bucket of the old one.
  table.sweep(now - 14s);
  ASSERT_EQ(hold(20, anna, 1s, 9), hold_outcome::held);
  table.close_anyway({7}, 4, now);
  EXPECT_EQ(table.held(now).granules, 9u);
}

TEST_F(holds_of_a_pool, a_hold_is_never_longer_than_the_longest) {
  ASSERT_EQ(hold(7, anna, 1h), hold_outcome::held);
  now += hold_table::duration_max + 2ms;
  EXPECT_FALSE(held(7));
}

TEST_F(holds_of_a_pool, a_word_of_another_clock_keeps_no_page) {
  now += 1h;
  ASSERT_EQ(hold(7, anna, 2s), hold_outcome::held);
  now -= 1h;
  EXPECT_FALSE(held(7));
  EXPECT_TRUE(table.close({7}, now));
}

TEST_F(holds_of_a_pool, without_a_limit_or_a_table_nothing_is_held) {
  table.limit(0);
  EXPECT_EQ(hold(7, anna, 2s), hold_outcome::refused);
  EXPECT_EQ(hold_table{}.hold({7}, 1, anna, now, now + 2s), hold_outcome::refused);
  EXPECT_EQ(hold(1000, anna, 2s), hold_outcome::gone);
}

TEST_F(holds_of_a_pool, an_owner_that_takes_the_pool_over_has_room_for_holds) {
  ASSERT_EQ(hold(7, anna, 9s, 64), hold_outcome::held);
  ASSERT_EQ(hold(8, anna, 2s), hold_outcome::refused);
  table.limit(64);
  EXPECT_TRUE(held(7)) << "its page is not open yet";
  EXPECT_EQ(hold(8, anna, 2s), hold_outcome::held);
  EXPECT_TRUE(table.release({7}, 64, anna, now));
  EXPECT_EQ(hold(9, anna, 2s, 64), hold_outcome::refused)
      << "no more than the limit counts as free";
}

TEST_F(holds_of_a_pool, the_account_of_a_course_is_complete_when_it_is_settled) {
  table.limit(1024);
  {
    hold_course course{table, anna, now, now + 2s};
    for (std::uint32_t slot = 0; slot < 10; ++slot)
      ASSERT_EQ(course.hold({slot}, 1), hold_outcome::held);
    EXPECT_EQ(course.hold({3}, 1), hold_outcome::held) << "the same page counts once";
    course.settle();
    EXPECT_EQ(table.held(now).pages, 10u);
    EXPECT_TRUE(course.release({4}, 1));
    EXPECT_EQ(table.held(now).pages, 9u);
    ASSERT_EQ(course.hold({20}, 3), hold_outcome::held);
  }
  EXPECT_EQ(table.held(now).pages, 10u);
  EXPECT_EQ(table.held(now).granules, 12u);
}

TEST_F(holds_of_a_pool, a_course_ends_at_the_limit_and_others_overstep_it_by_one_part_of_it) {
  table.limit(128);
  hold_course of_anna{table, anna, now, now + 2s};
  hold_course of_bert{table, bert, now, now + 2s};
  std::uint64_t held = 0;
  for (std::uint32_t slot = 0; slot < 256; ++slot) {
    auto& by = slot % 2 == 0 ? of_anna : of_bert;
    held += by.hold({slot}, 1) == hold_outcome::held ? 1 : 0;
  }
  EXPECT_GE(held, 128u);
  EXPECT_LE(held, 128u + 2 * 128 / hold_table::course_parts);
}

TEST_F(holds_of_a_pool, a_hold_of_a_course_that_ends_later_moves_the_pages_account) {
  ASSERT_EQ(hold(7, anna, 1s, 4), hold_outcome::held);
  {
    hold_course course{table, anna, now, now + 5s};
    ASSERT_EQ(course.hold({7}, 4), hold_outcome::held);
  }
  EXPECT_EQ(table.held(now).granules, 4u);
  now += 2s;
  table.sweep(now);
  EXPECT_EQ(table.held(now).granules, 4u);
  EXPECT_TRUE(held(7));
}

TEST_F(holds_of_a_pool, a_hold_and_a_close_that_meet_do_not_both_succeed) {
  constexpr int rounds = 20'000;
  std::atomic<int> turn{0};
  std::vector<char> was_held(rounds);
  std::thread holder([&] {
    for (int i = 0; i < rounds; ++i) {
      while (turn.load() <= i)
        ;
      was_held[static_cast<std::size_t>(i)] = hold(7, anna, 2s) == hold_outcome::held;
      turn.store(-1 - i);
    }
  });
  int both = 0;
  for (int i = 0; i < rounds; ++i) {
    table.open({7});
    turn.store(i + 1);
    const bool was_closed = table.close({7}, now);
    while (turn.load() != -1 - i)
      ;
    both += was_closed && was_held[static_cast<std::size_t>(i)];
    table.close_anyway({7}, 1, now);
  }
  holder.join();
  EXPECT_EQ(both, 0);
  EXPECT_EQ(table.held(now).pages, 0u);
}

} // namespace
} // namespace peercache::storage::hold_table_test
