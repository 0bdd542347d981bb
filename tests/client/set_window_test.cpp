#include "client/set_window.hpp"

#include <gtest/gtest.h>

namespace peercache::client {
namespace {

deadline now() {
  return std::chrono::steady_clock::now();
}

TEST(set_window, refuses_what_does_not_fit_until_the_deadline) {
  set_window window{100};
  EXPECT_TRUE(window.enter(60, now()));
  EXPECT_FALSE(window.enter(60, now()));
  window.leave(60, 1, {});
  EXPECT_TRUE(window.enter(60, now()));
}

TEST(set_window, lets_a_call_that_is_larger_than_itself_pass_alone) {
  set_window window{100};
  EXPECT_TRUE(window.enter(1000, now()));
  EXPECT_FALSE(window.enter(1, now()));
}

TEST(set_window, is_no_larger_than_its_part_of_the_pool) {
  set_window window{100};
  window.follow(400);
  EXPECT_TRUE(window.enter(50, now()));
  EXPECT_FALSE(window.enter(1, now()));
  window.follow(1u << 30); // The node has restarted with a larger pool.
  EXPECT_TRUE(window.enter(50, now()));
  EXPECT_FALSE(window.enter(1, now())) << "the option's word still holds";
}

TEST(set_window, counts_failures_and_duplicates_until_they_are_asked_for) {
  set_window window{100};
  window.enter(10, now());
  window.enter(10, now());
  EXPECT_FALSE(window.wait_empty(now()).has_value());
  window.leave(10, 1, {.failed = 3, .duplicates = 1, .unpublished = 2});
  window.leave(10, 1, {.duplicates = 4});
  auto outcome = window.wait_empty(now());
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->failed, 3u);
  EXPECT_EQ(outcome->duplicates, 5u);
  EXPECT_EQ(outcome->unpublished, 2u);
  EXPECT_EQ(window.wait_empty(now())->failed, 0u);
  EXPECT_EQ(window.wait_empty(now())->duplicates, 0u);
}

} // namespace
} // namespace peercache::client
