#include "client/read/page_heat.hpp"

#include <gtest/gtest.h>

#include <string>

namespace peercache::client {
namespace {

using namespace std::chrono_literals;

class page_heat_test : public testing::Test {
protected:
  /// Returns two keys that share a cell of the table.
  std::pair<page_key, page_key> neighbours() const {
    for (int i = 1;; ++i) {
      const auto other = key_space{}.key_of(std::to_string(i));
      if (other.prefix() % page_heat::cells == key.prefix() % page_heat::cells)
        return {key, other};
    }
  }

  const page_key key = key_space{}.key_of("0");
  page_heat heat;
  page_heat::time_point now{1h};
};

TEST_F(page_heat_test, counts_the_reads_of_a_page) {
  EXPECT_EQ(heat.count_read(key, now), 1u);
  EXPECT_EQ(heat.count_read(key, now + 1s), page_heat::hot_reads);
}

TEST_F(page_heat_test, the_count_of_a_page_has_an_end_and_does_not_wrap) {
  std::uint32_t reads = 0;
  for (int i = 0; i < 1000; ++i)
    reads = heat.count_read(key, now);
  EXPECT_EQ(reads, 127u);
  EXPECT_FALSE(heat.is_mirrored(key, now)) << "the bit beside the count is its own";
}

TEST_F(page_heat_test, forgets_reads_that_are_older_than_the_window) {
  heat.count_read(key, now);
  EXPECT_EQ(heat.count_read(key, now + page_heat::window), 1u);
}

TEST_F(page_heat_test, the_window_begins_with_the_first_read_and_not_with_the_last) {
  heat.count_read(key, now);
  heat.count_read(key, now + page_heat::window - 1s);
  EXPECT_EQ(heat.count_read(key, now + page_heat::window), 1u);
}

TEST_F(page_heat_test, a_mirrored_page_is_remembered_and_counts_anew) {
  heat.count_read(key, now);
  heat.count_read(key, now);
  EXPECT_FALSE(heat.is_mirrored(key, now));
  heat.mark_mirrored(key, now);
  EXPECT_TRUE(heat.is_mirrored(key, now));
  EXPECT_EQ(heat.count_read(key, now), 2u);
  EXPECT_TRUE(heat.is_mirrored(key, now));
}

TEST_F(page_heat_test, a_mirrored_page_is_forgotten_after_the_window) {
  heat.mark_mirrored(key, now);
  EXPECT_TRUE(heat.is_mirrored(key, now + page_heat::window - 1s));
  EXPECT_FALSE(heat.is_mirrored(key, now + page_heat::window));
}

TEST_F(page_heat_test, a_page_forgets_another_one_of_its_cell) {
  const auto [one, other] = neighbours();
  heat.mark_mirrored(one, now);
  EXPECT_FALSE(heat.is_mirrored(other, now)) << "it is never taken for the other one";
  EXPECT_EQ(heat.count_read(other, now), 1u);
  EXPECT_FALSE(heat.is_mirrored(one, now));
}

TEST_F(page_heat_test, the_seconds_of_its_cells_may_wrap) {
  const page_heat::time_point before{std::chrono::seconds((1u << 24) - 10)};
  heat.count_read(key, before);
  EXPECT_EQ(heat.count_read(key, before + 20s), 2u);
}

} // namespace
} // namespace peercache::client
