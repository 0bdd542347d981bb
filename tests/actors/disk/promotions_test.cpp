#include "actors/disk/promotions.hpp"

#include <cstring>
#include <gtest/gtest.h>

namespace peercache::actors {
namespace {

using answer = promotions::answer;

page_key key_of(std::uint8_t number) {
  page_key key;
  key.bytes[0] = number;
  return key;
}

TEST(promotions, a_page_is_on_its_way_once_however_many_wait) {
  promotions pages(1000);
  EXPECT_EQ(pages.ask(key_of(1), 100, 0, 10), answer::queued);
  for (std::uint64_t waiter = 1; waiter < 1000; ++waiter)
    EXPECT_EQ(pages.ask(key_of(1), 100, waiter, 10), answer::joined);
  EXPECT_EQ(pages.start_next(0, 16).size(), 1u);
  EXPECT_EQ(pages.ask(key_of(1), 100, 1000, 10), answer::joined) << "also after its start";
  EXPECT_TRUE(pages.start_next(0, 16).empty());
  EXPECT_EQ(pages.finish(key_of(1)).size(), 1001u);
  EXPECT_EQ(pages.on_their_way(), 0u);
  EXPECT_EQ(pages.bytes(), 0u);
}

TEST(promotions, no_more_bytes_are_on_their_way_than_allowed) {
  promotions pages(1000);
  for (std::uint8_t i = 0; i < 5; ++i)
    pages.ask(key_of(i), 400, i, 10);
  EXPECT_EQ(pages.start_next(0, 16).size(), 2u);
  pages.finish(key_of(0));
  EXPECT_EQ(pages.start_next(0, 16).size(), 1u);
}

TEST(promotions, a_page_larger_than_the_limit_goes_alone) {
  promotions pages(1000);
  pages.ask(key_of(1), 4000, 1, 10);
  pages.ask(key_of(2), 1, 2, 10);
  EXPECT_EQ(pages.start_next(0, 16).size(), 1u);
  pages.finish(key_of(1));
  EXPECT_EQ(pages.start_next(0, 16).size(), 1u);
}

TEST(promotions, what_everybody_gave_up_is_not_started) {
  promotions pages(100);
  pages.ask(key_of(1), 100, 1, 10);
  pages.ask(key_of(2), 100, 2, 10);
  pages.ask(key_of(3), 100, 3, 50);
  ASSERT_EQ(pages.start_next(0, 16).size(), 1u);
  pages.finish(key_of(1));
  const auto next = pages.start_next(20, 16);
  ASSERT_EQ(next.size(), 1u);
  EXPECT_EQ(next[0].key, key_of(3));
  EXPECT_EQ(pages.on_their_way(), 1u);
}

TEST(promotions, a_page_that_never_comes_has_so_many_waiters_at_most) {
  promotions pages(1000);
  for (std::uint64_t i = 0; i < promotions::waiters_max; ++i)
    ASSERT_NE(pages.ask(key_of(1), 100, i, 10), answer::refused);
  EXPECT_EQ(pages.ask(key_of(1), 100, 0, 10), answer::refused);
  EXPECT_EQ(pages.ask(key_of(2), 100, 0, 10), answer::queued) << "another page";
}

TEST(promotions, pages_are_bounded_whatever_their_lengths) {
  promotions pages(1000);
  const auto numbered = [](std::size_t number) {
    page_key key;
    std::memcpy(key.bytes.data(), &number, sizeof number);
    return key;
  };
  std::size_t asked = 0;
  while (asked < 2 * promotions::pages_max &&
         pages.ask(numbered(asked), 0, {}, 10) == answer::queued)
    ++asked;
  EXPECT_EQ(asked, promotions::pages_max);
  EXPECT_EQ(pages.start_next(0, asked).size(), asked);
  EXPECT_EQ(pages.ask(numbered(asked), 0, {}, 10), answer::refused) << "all are on their way";
  pages.finish(numbered(0));
  EXPECT_EQ(pages.ask(numbered(asked), 0, {}, 10), answer::queued);
}

TEST(promotions, warming_takes_a_quarter_of_the_room_and_nobodys_turn) {
  promotions pages(1000);
  EXPECT_EQ(pages.ask(key_of(1), 100, std::nullopt, 10), answer::queued);
  EXPECT_EQ(pages.ask(key_of(2), 100, std::nullopt, 10), answer::queued) << "nobody waits";
  EXPECT_EQ(pages.ask(key_of(3), 100, std::nullopt, 10), answer::refused) << "a quarter is full";
  EXPECT_TRUE(pages.start_next(0, 16)[0].warm);
  EXPECT_EQ(pages.ask(key_of(3), 100, std::nullopt, 10), answer::refused) << "a quarter is taken";
  EXPECT_EQ(pages.ask(key_of(4), 200, 7, 10), answer::queued);
  EXPECT_TRUE(pages.finish(key_of(1)).empty());
  EXPECT_TRUE(pages.finish(key_of(2)).empty());
  EXPECT_EQ(pages.ask(key_of(3), 10, std::nullopt, 10), answer::refused) << "somebody waits";
  EXPECT_FALSE(pages.start_next(0, 16)[0].warm);
  pages.finish(key_of(4));
  EXPECT_EQ(pages.ask(key_of(3), 10, std::nullopt, 10), answer::queued);
}

} // namespace
} // namespace peercache::actors
