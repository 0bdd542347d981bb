#include "client/read/peer_health.hpp"

#include <gtest/gtest.h>

#include <chrono>

namespace peercache::client {
namespace {

using namespace std::chrono_literals;

class peer_health_test : public testing::Test {
protected:
  void fail(int times) {
    for (int i = 0; i < times; ++i)
      health.on_failure(peer, now);
  }

  /// Notes that the peer has left a question unanswered for 10 ms.
  void be_silent() {
    const auto asked_at = now;
    now += 10ms;
    health.on_silence(peer, asked_at, now);
  }

  const incarnation peer{1, 1};
  const incarnation other{1, 2};
  peer_health health;
  circuit_breaker::time_point now{1h};
};

TEST_F(peer_health_test, a_peer_that_never_failed_is_asked) {
  EXPECT_TRUE(health.allow(peer, now));
  EXPECT_EQ(health.open(), 0u);
}

TEST_F(peer_health_test, a_peer_that_fails_again_and_again_is_left_alone) {
  fail(2);
  EXPECT_TRUE(health.allow(peer, now));
  fail(1);
  EXPECT_FALSE(health.allow(peer, now));
  EXPECT_EQ(health.open(), 1u);
}

TEST_F(peer_health_test, one_peer_says_nothing_of_another) {
  fail(3);
  EXPECT_TRUE(health.allow(other, now));
}

TEST_F(peer_health_test, an_answer_between_failures_begins_the_count_anew) {
  fail(2);
  health.on_success(peer);
  fail(2);
  EXPECT_TRUE(health.allow(peer, now));
}

TEST_F(peer_health_test, one_call_at_a_time_tries_a_peer_out) {
  fail(3);
  now += 1s;
  EXPECT_TRUE(health.allow(peer, now));
  EXPECT_FALSE(health.allow(peer, now)) << "one probe at a time";
}

TEST_F(peer_health_test, a_call_that_says_nothing_leaves_its_place_to_another) {
  fail(3);
  now += 1s;
  ASSERT_TRUE(health.allow(peer, now));
  health.on_nothing(peer, now);
  ASSERT_TRUE(health.allow(peer, now)) << "it may be tried again";
  health.on_success(peer);
  ASSERT_TRUE(health.allow(peer, now));
  health.on_nothing(peer, now);
  EXPECT_TRUE(health.allow(peer, now)) << "one at a time";
}

TEST_F(peer_health_test, a_peer_that_comes_back_is_met_by_few_calls_first) {
  fail(3);
  now += 1s;
  ASSERT_TRUE(health.allow(peer, now));
  health.on_success(peer);
  EXPECT_TRUE(health.allow(peer, now));
  EXPECT_FALSE(health.allow(peer, now)) << "one at a time";
  health.on_success(peer);
  EXPECT_TRUE(health.allow(peer, now));
  EXPECT_TRUE(health.allow(peer, now));
  EXPECT_FALSE(health.allow(peer, now)) << "then two";
  EXPECT_EQ(health.open(), 0u);
}

TEST_F(peer_health_test, a_peer_that_answered_often_enough_is_trusted) {
  fail(3);
  now += 1s;
  for (int answers = 0; answers < 5; ++answers) {
    ASSERT_TRUE(health.allow(peer, now)) << answers;
    health.on_success(peer);
  }
  for (std::uint32_t i = 0; i < 2 * peer_health::slow_start_calls; ++i)
    EXPECT_TRUE(health.allow(peer, now));
}

TEST_F(peer_health_test, a_new_process_in_the_place_of_a_failed_one_is_asked_at_once) {
  fail(3);
  const incarnation restarted{2, 1};
  EXPECT_TRUE(health.allow(restarted, now));
}

TEST_F(peer_health_test, a_peer_that_is_silent_for_long_is_left_alone) {
  const auto asked = now;
  for (int i = 0; i < 24; ++i)
    be_silent();
  EXPECT_TRUE(health.allow(peer, now)) << "slow so far";
  for (int i = 0; i < 3; ++i)
    be_silent();
  EXPECT_GE(now - asked, peer_health::silence_max);
  EXPECT_FALSE(health.allow(peer, now));
}

TEST_F(peer_health_test, a_peer_is_doubted_for_a_while_after_a_silence) {
  EXPECT_FALSE(health.is_silent(peer, now));
  be_silent();
  EXPECT_TRUE(health.is_silent(peer, now));
  EXPECT_FALSE(health.is_silent(peer, now + peer_health::doubt_lasts));
  health.on_success(peer);
  EXPECT_FALSE(health.is_silent(peer, now));
}

TEST_F(peer_health_test, an_answer_ends_a_silence) {
  for (int i = 0; i < 200; ++i) {
    be_silent();
    if (i % 20 == 0)
      health.on_success(peer);
  }
  EXPECT_TRUE(health.allow(peer, now));
}

TEST_F(peer_health_test, a_peer_that_is_slow_when_it_is_tried_is_tried_again_soon) {
  fail(3);
  for (int longer = 0; longer < 4; ++longer) {
    now += 8s;
    ASSERT_TRUE(health.allow(peer, now));
    fail(1); // After these failures the pause has its longest length, 8 s.
  }
  now += 8s;
  ASSERT_TRUE(health.allow(peer, now));
  health.on_silence(peer, now, now + 10ms);
  now += 10ms;
  EXPECT_FALSE(health.allow(peer, now)) << "others would wait for it, too";
  now += 500ms;
  EXPECT_TRUE(health.allow(peer, now));
}

TEST_F(peer_health_test, who_is_not_in_the_view_is_forgotten) {
  fail(3);
  discovery::view view;
  view.members.emplace_back().inc = peer;
  health.follow(view);
  EXPECT_EQ(health.open(), 1u) << "it is a member, and still fails";
  view.members[0].inc = other;
  health.follow(view);
  EXPECT_EQ(health.open(), 0u);
  EXPECT_TRUE(health.allow(peer, now));
}

} // namespace
} // namespace peercache::client
