#include "client/read_waves.hpp"

#include <gtest/gtest.h>

namespace peercache::client {
namespace {

using namespace std::chrono_literals;
using time_point = read_waves::time_point;

constexpr time_point start{1h};

TEST(read_waves, many_pages_begin_at_once) {
  read_waves waves(128);
  EXPECT_TRUE(waves.begins(8, start));
  EXPECT_EQ(waves.next(), time_point::max());
  EXPECT_TRUE(waves.begins(120, start));
}

TEST(read_waves, the_first_page_of_a_small_call_begins_at_once) {
  for (std::size_t keys = 1; keys <= 16; ++keys)
    EXPECT_TRUE(read_waves(keys).begins(1, start));
}

TEST(read_waves, a_few_pages_wait_a_moment_for_others) {
  read_waves waves(128);
  EXPECT_FALSE(waves.begins(7, start));
  EXPECT_EQ(waves.next(), start + 1ms);
  EXPECT_FALSE(waves.begins(7, start + 999us)) << "the moment begins with the first of them";
  EXPECT_EQ(waves.next(), start + 1ms);
  EXPECT_TRUE(waves.begins(7, start + 1ms));
  EXPECT_EQ(waves.next(), time_point::max());
  EXPECT_FALSE(waves.begins(7, start + 2ms));
  EXPECT_EQ(waves.next(), start + 4ms) << "the next moment is twice as long";
}

TEST(read_waves, a_few_pages_that_become_many_wait_no_longer) {
  read_waves waves(128);
  EXPECT_FALSE(waves.begins(7, start));
  EXPECT_TRUE(waves.begins(8, start + 1us));
  EXPECT_FALSE(waves.begins(15, start + 2us)) << "many are twice as many now";
  EXPECT_EQ(waves.next(), start + 2us + 1ms) << "and others have a moment of their own";
  EXPECT_TRUE(waves.begins(16, start + 3us));
}

/// Lets one page be found every `pace`, and returns the number of waves in which they begin.
std::size_t waves_of(std::size_t keys, std::chrono::nanoseconds pace) {
  read_waves waves(keys);
  std::size_t count = 0;
  std::size_t found = 0;
  for (std::size_t i = 0; i < keys; ++i)
    if (waves.begins(++found, start + static_cast<std::int64_t>(i) * pace)) {
      ++count;
      found = 0;
    }
  return count;
}

TEST(read_waves, owners_that_answer_one_after_the_other_make_few_batches) {
  EXPECT_EQ(waves_of(128, 2us), 4u) << "8, 16, 32 and 64 pages";
  EXPECT_EQ(waves_of(128, 20us), 4u) << "8, 16 and 32 pages, and those of 1 ms";
  EXPECT_LE(waves_of(8192, 100us), 15u);
}

} // namespace
} // namespace peercache::client
