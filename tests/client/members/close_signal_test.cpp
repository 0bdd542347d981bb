#include "client/members/close_signal.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <poll.h>

namespace peercache::client {
namespace {

bool is_readable(const close_signal& signal) {
  pollfd looked{signal.file(), POLLIN, 0};
  return ::poll(&looked, 1, 0) == 1;
}

TEST(close_signal, is_not_given_at_first) {
  const close_signal signal;
  EXPECT_FALSE(signal.given());
  EXPECT_FALSE(is_readable(signal));
}

TEST(close_signal, is_seen_by_who_looks_and_by_who_polls) {
  close_signal signal;
  signal.give();
  EXPECT_TRUE(signal.given());
  EXPECT_TRUE(is_readable(signal));
}

TEST(close_signal, ends_every_wait_once) {
  close_signal signal;
  int ended = 0;
  const close_signal::waiter one{signal, [&] { ++ended; }};
  const close_signal::waiter two{signal, [&] { ++ended; }};
  EXPECT_EQ(ended, 0);
  signal.give();
  EXPECT_EQ(ended, 2);
  signal.give();
  EXPECT_EQ(ended, 2);
}

TEST(close_signal, a_wait_that_begins_after_it_ends_at_once) {
  close_signal signal;
  signal.give();
  int ended = 0;
  const close_signal::waiter late{signal, [&] { ++ended; }};
  EXPECT_EQ(ended, 1);
}

TEST(close_signal, a_wait_that_is_over_is_not_ended_again) {
  close_signal signal;
  int ended = 0;
  auto over = std::make_unique<close_signal::waiter>(signal, [&] { ++ended; });
  int others = 0;
  const close_signal::waiter other{signal, [&] { ++others; }};
  over.reset();
  signal.give();
  EXPECT_EQ(ended, 0);
  EXPECT_EQ(others, 1);
}

} // namespace
} // namespace peercache::client
