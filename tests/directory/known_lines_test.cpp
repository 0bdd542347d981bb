#include "directory/known_lines.hpp"

#include "tests/directory/shard_records.hpp"

#include <gtest/gtest.h>

namespace peercache::directory::known_lines_test {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t hash = 77;
constexpr known_lines::state state{alice, 8};
constexpr known_lines::time_point start{100s};

class known_lines_test : public testing::Test {
protected:
  known_lines lines;
  known_lines::line kept{3, {word_of(1, 4), 0, word_of(9, hash)}, location_at(bob, 6)};
  known_lines::line found{};

  bool find(const page_key& key, const known_lines::state& in = state,
            known_lines::time_point now = start) {
    return lines.find(key, hash, in, now, found);
  }
};

TEST_F(known_lines_test, nothing_is_known_at_first) {
  EXPECT_FALSE(find(numbered_key(1)));
}

TEST_F(known_lines_test, what_a_line_led_to_is_known) {
  lines.keep(numbered_key(1), hash, state, kept, start);
  ASSERT_TRUE(find(numbered_key(1)));
  EXPECT_EQ(found.number, kept.number);
  EXPECT_EQ(found.words, kept.words);
  EXPECT_EQ(found.found, kept.found);
}

TEST_F(known_lines_test, another_key_takes_the_place) {
  lines.keep(numbered_key(1), hash, state, kept, start);
  EXPECT_FALSE(find(numbered_key(2)));
  lines.keep(numbered_key(2), hash, state, kept, start);
  EXPECT_TRUE(find(numbered_key(2)));
  EXPECT_FALSE(find(numbered_key(1)));
}

TEST_F(known_lines_test, in_another_state_of_the_shard_or_another_shard_nothing_is_known) {
  lines.keep(numbered_key(1), hash, state, kept, start);
  EXPECT_FALSE(find(numbered_key(1), {alice, 10}));
  // The place of both is the same.
  EXPECT_FALSE(find(numbered_key(1), {{alice.high + 1, alice.low}, 8}));
}

TEST_F(known_lines_test, a_line_that_was_changing_is_not_kept) {
  kept.words[0] = word_of(1, 5);
  lines.keep(numbered_key(1), hash, state, kept, start);
  EXPECT_FALSE(find(numbered_key(1)));
}

TEST_F(known_lines_test, a_line_is_known_for_less_time_than_its_version_takes_to_come_back) {
  lines.keep(numbered_key(1), hash, state, kept, start);
  EXPECT_TRUE(find(numbered_key(1), state, start + known_lines::lasts - 1ns));
  EXPECT_FALSE(find(numbered_key(1), state, start + known_lines::lasts));
}

} // namespace
} // namespace peercache::directory::known_lines_test
