#include "client/calls/read_waves.hpp"

#include <gtest/gtest.h>

namespace peercache::client {
namespace {

using namespace std::chrono_literals;
using time_point = read_waves::time_point;

constexpr time_point start{1h};
constexpr auto many = read_waves::many_at_first;

TEST(read_waves, many_bytes_begin_at_once) {
  read_waves waves;
  EXPECT_TRUE(waves.begins(many, start));
  EXPECT_EQ(waves.next(), time_point::max());
  EXPECT_TRUE(waves.begins(2 * many, start));
}

TEST(read_waves, a_few_bytes_wait_a_moment_for_others) {
  read_waves waves;
  EXPECT_FALSE(waves.begins(1, start));
  EXPECT_EQ(waves.next(), start + 1ms);
  EXPECT_FALSE(waves.begins(many - 1, start + 999us)) << "the moment begins with the first page";
  EXPECT_EQ(waves.next(), start + 1ms);
  EXPECT_TRUE(waves.begins(many - 1, start + 1ms));
  EXPECT_EQ(waves.next(), time_point::max());
  EXPECT_FALSE(waves.begins(many - 1, start + 2ms));
  EXPECT_EQ(waves.next(), start + 4ms) << "the next moment is twice as long";
}

TEST(read_waves, a_few_bytes_that_become_many_wait_no_longer) {
  read_waves waves;
  EXPECT_FALSE(waves.begins(many - 1, start));
  EXPECT_TRUE(waves.begins(many, start + 1us));
  EXPECT_FALSE(waves.begins(2 * many - 1, start + 2us)) << "many are twice as many now";
  EXPECT_EQ(waves.next(), start + 2us + 1ms) << "and others have a moment of their own";
  EXPECT_TRUE(waves.begins(2 * many, start + 3us));
}

/// Lets one page be found every `pace`, and returns the number of waves in which they begin.
std::size_t waves_of(std::size_t pages, std::uint64_t page_bytes, std::chrono::nanoseconds pace) {
  read_waves waves;
  std::size_t count = 0;
  std::uint64_t found = 0;
  for (std::size_t i = 0; i < pages; ++i) {
    found += page_bytes;
    if (waves.begins(found, start + static_cast<std::int64_t>(i) * pace)) {
      ++count;
      found = 0;
    }
  }
  return count;
}

TEST(read_waves, owners_that_answer_one_after_the_other_make_few_batches) {
  EXPECT_EQ(waves_of(128, 4096, 2us), 0u) << "all of them together, when the last owner answers";
  EXPECT_EQ(waves_of(128, many, 2us), 7u) << "1, 2, 4, ... MiB";
  EXPECT_LE(waves_of(8192, many, 100us), 13u + 10u) << "doubling up to 8 GiB, and up to 1 s";
  EXPECT_LE(waves_of(8192, 4096, 100us), 5u + 10u) << "doubling up to 32 MiB, and up to 1 s";
}

} // namespace
} // namespace peercache::client
