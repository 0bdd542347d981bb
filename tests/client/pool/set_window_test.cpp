#include "client/pool/set_window.hpp"

#include <gtest/gtest.h>

#include <new>
#include <thread>

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

TEST(set_window, a_call_that_ends_early_gives_back_what_it_has_not_passed_on) {
  set_window window{100};
  const auto set = [&window](bool fails) {
    set_window::stay stay{window, 100, now()};
    EXPECT_TRUE(stay.entered());
    EXPECT_FALSE((set_window::stay{window, 1, now()}.entered()));
    if (fails)
      throw std::bad_alloc();
    stay.pass_on();
  };
  EXPECT_THROW(set(true), std::bad_alloc);
  EXPECT_TRUE(window.wait_empty(now()));
  set(false);
  EXPECT_FALSE(window.wait_empty(now()));
  window.leave(100, 1, {});
  EXPECT_TRUE(window.wait_empty(now()));
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

deadline never() {
  return now() + std::chrono::hours(1);
}

TEST(set_window, a_call_waits_for_the_room_that_another_one_gives_back) {
  set_window window{100};
  ASSERT_TRUE(window.enter(100, now()));
  std::thread other([&] { window.leave(100, 1, {}); });
  EXPECT_TRUE(window.enter(60, never()));
  other.join();
  EXPECT_FALSE(window.enter(60, now()));
}

TEST(set_window, a_call_waits_for_the_room_in_a_larger_pool) {
  set_window window{100};
  window.follow(80);
  ASSERT_TRUE(window.enter(10, now()));
  std::thread other([&] { window.follow(800); });
  EXPECT_TRUE(window.enter(60, never()));
  other.join();
}

TEST(set_window, whoever_waits_for_its_end_is_told_at_the_last_acknowledgement) {
  set_window window{100};
  for (int set = 0; set < 3; ++set)
    window.enter(10, now());
  std::thread node([&] {
    window.leave(10, 1, {.failed = 1});
    window.leave(20, 2, {.failed = 2}); // One message acknowledges two sets.
  });
  EXPECT_EQ(window.wait_empty(never())->failed, 3u);
  node.join();
}

TEST(set_window, a_set_of_no_bytes_is_under_way_as_well) {
  set_window window{100};
  ASSERT_TRUE(window.enter(0, now()));
  EXPECT_FALSE(window.wait_empty(now()));
  window.leave(0, 1, {});
  EXPECT_TRUE(window.wait_empty(now()));
}

TEST(set_window, nobody_waits_at_one_that_is_closed) {
  set_window window{100};
  ASSERT_TRUE(window.enter(100, now()));
  std::thread closing([&] { window.close(); });
  EXPECT_FALSE(window.enter(1, never()));
  EXPECT_FALSE(window.wait_empty(never()));
  closing.join();
  window.leave(100, 1, {});
  EXPECT_FALSE(window.enter(1, now())) << "though there is room";
  EXPECT_FALSE(window.wait_empty(now()));
}

} // namespace
} // namespace peercache::client
