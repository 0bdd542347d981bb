#include "common/circuit_breaker.hpp"

#include <gtest/gtest.h>

namespace peercache {
namespace {

using namespace std::chrono_literals;
using state = circuit_breaker::state;

class breaker : public testing::Test {
protected:
  void fail(int times) {
    for (int i = 0; i < times; ++i)
      subject.on_failure(now);
  }

  /// Expects that the breaker allows the next probe after `pause`, and not a moment earlier.
  void expect_probe_after(circuit_breaker::duration pause) {
    now += pause - 1ns;
    EXPECT_FALSE(subject.allow(now));
    now += 1ns;
    EXPECT_TRUE(subject.allow(now));
    EXPECT_EQ(subject.current(), state::half_open);
  }

  circuit_breaker subject{{.failures_to_open = 3, .pause = 100ms, .pause_max = 350ms}};
  circuit_breaker::time_point now{1h};
};

TEST_F(breaker, lets_calls_through_while_closed) {
  EXPECT_EQ(subject.current(), state::closed);
  for (int i = 0; i < 10; ++i)
    EXPECT_TRUE(subject.allow(now));
}

TEST_F(breaker, opens_after_as_many_failures_in_a_row_as_told) {
  fail(2);
  EXPECT_EQ(subject.current(), state::closed);
  EXPECT_TRUE(subject.allow(now));
  fail(1);
  EXPECT_EQ(subject.current(), state::open);
  EXPECT_EQ(subject.opened_total(), 1u);
  EXPECT_FALSE(subject.allow(now));
}

TEST_F(breaker, forgets_failures_at_a_success) {
  fail(2);
  subject.on_success();
  fail(2);
  EXPECT_EQ(subject.current(), state::closed);
}

TEST_F(breaker, sends_one_probe_at_a_time_when_half_open) {
  fail(3);
  expect_probe_after(100ms);
  EXPECT_FALSE(subject.allow(now));
  EXPECT_FALSE(subject.allow(now + 99ms));
}

TEST_F(breaker, closes_when_the_probe_succeeds) {
  fail(3);
  expect_probe_after(100ms);
  subject.on_success();
  EXPECT_EQ(subject.current(), state::closed);
  EXPECT_TRUE(subject.allow(now));
  EXPECT_TRUE(subject.allow(now));
}

TEST_F(breaker, doubles_the_pause_up_to_its_maximum_when_probes_fail) {
  fail(3);
  expect_probe_after(100ms);
  fail(1);
  EXPECT_EQ(subject.current(), state::open);
  expect_probe_after(200ms);
  fail(1);
  expect_probe_after(350ms);
  fail(1);
  expect_probe_after(350ms);
  EXPECT_EQ(subject.opened_total(), 4u);
}

TEST_F(breaker, starts_with_the_first_pause_again_after_a_success) {
  fail(3);
  expect_probe_after(100ms);
  fail(1);
  expect_probe_after(200ms);
  subject.on_success();
  fail(3);
  expect_probe_after(100ms);
}

TEST_F(breaker, is_not_stuck_when_a_probe_never_reports_back) {
  fail(3);
  expect_probe_after(100ms);
  expect_probe_after(100ms);
}

TEST_F(breaker, does_not_prolong_the_pause_for_calls_from_before_it_opened) {
  fail(3);
  now += 50ms;
  fail(5);
  EXPECT_EQ(subject.opened_total(), 1u);
  expect_probe_after(50ms);
}

TEST_F(breaker, knows_nothing_of_the_past_after_a_reset) {
  fail(3);
  expect_probe_after(100ms);
  fail(1);
  subject.reset();
  EXPECT_EQ(subject.current(), state::closed);
  EXPECT_TRUE(subject.allow(now));
  fail(2);
  EXPECT_EQ(subject.current(), state::closed);
  fail(1);
  expect_probe_after(100ms);
}

class slow_breaker : public breaker {
protected:
  /// Returns how many calls the breaker allows now, while none of them ends.
  int allowed() {
    int calls = 0;
    while (calls < 100 && subject.allow(now))
      ++calls;
    return calls;
  }

  void SetUp() override {
    subject = circuit_breaker{
        {.failures_to_open = 3, .pause = 100ms, .pause_max = 350ms, .slow_start_calls = 4}};
    fail(3);
    expect_probe_after(100ms);
    subject.on_success();
  }
};

TEST_F(slow_breaker, lets_calls_through_one_then_two_then_four_at_a_time_and_then_all) {
  EXPECT_EQ(subject.current(), state::recovering);
  EXPECT_EQ(allowed(), 1);
  EXPECT_FALSE(subject.would_allow(now));
  subject.on_success();
  EXPECT_EQ(allowed(), 2);
  subject.on_success();
  EXPECT_EQ(allowed(), 3) << "four, one of which was running";
  subject.on_success();
  EXPECT_EQ(subject.current(), state::closed);
  EXPECT_EQ(allowed(), 100);
}

TEST_F(slow_breaker, opens_at_the_first_failure_and_waits_longer) {
  EXPECT_EQ(allowed(), 1);
  subject.on_failure(now);
  EXPECT_EQ(subject.current(), state::open);
  expect_probe_after(200ms);
}

TEST_F(slow_breaker, an_overdue_call_is_followed_by_a_probe_after_the_first_pause) {
  subject.on_failure(now);
  expect_probe_after(200ms);
  subject.on_overdue(now);
  EXPECT_EQ(subject.current(), state::open);
  expect_probe_after(100ms);
  subject.on_failure(now);
  expect_probe_after(350ms);
  subject.on_success();
  EXPECT_EQ(allowed(), 1);
  subject.on_overdue(now);
  expect_probe_after(100ms);
}

TEST_F(breaker, says_nothing_of_overdue_calls_while_it_is_closed) {
  for (int i = 0; i < 10; ++i)
    subject.on_overdue(now);
  EXPECT_EQ(subject.current(), state::closed);
}

TEST_F(slow_breaker, is_not_stuck_when_calls_never_report_back) {
  EXPECT_EQ(allowed(), 1);
  now += 99ms;
  EXPECT_EQ(allowed(), 0);
  now += 1ms;
  EXPECT_EQ(allowed(), 1);
}

TEST_F(slow_breaker, a_probe_can_always_go_out_sooner_or_later) {
  std::uint32_t seed = 1;
  for (int i = 0; i < 10'000; ++i) {
    seed = seed * 1664525 + 1013904223;
    switch (seed >> 29) {
    case 0:
    case 1:
      subject.allow(now);
      break;
    case 2:
      subject.on_success();
      break;
    case 3:
      subject.on_failure(now);
      break;
    case 4:
      subject.on_overdue(now);
      break;
    case 5:
      subject.on_nothing(now);
      break;
    default:
      now += 10ms;
    }
    EXPECT_TRUE(subject.would_allow(now + 350ms)) << "step " << i;
  }
}

} // namespace
} // namespace peercache
