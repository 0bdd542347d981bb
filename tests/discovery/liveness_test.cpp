#include "discovery/liveness.hpp"

#include <gtest/gtest.h>

namespace peercache::discovery {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr time_point start{std::chrono::hours(1)};
constexpr incarnation one{1, 1};
constexpr incarnation two{2, 2};

std::vector<member> members(std::vector<incarnation> incs) {
  std::vector<member> out;
  for (const auto& inc : incs)
    out.push_back({.name = "n", .inc = inc});
  return out;
}

liveness watching_both() {
  liveness l(seconds(2), seconds(1));
  l.watch(members({one, two}), start);
  return l;
}

TEST(liveness, who_is_not_watched_is_silent) {
  auto l = watching_both();
  EXPECT_TRUE(l.silent({3, 3}, start));
  l.heard({3, 3}, start);
  EXPECT_TRUE(l.silent({3, 3}, start));
}

TEST(liveness, a_member_is_silent_after_the_expiry_and_not_before) {
  auto l = watching_both();
  EXPECT_FALSE(l.silent(one, start + seconds(2)));
  EXPECT_TRUE(l.silent(one, start + milliseconds(2001)));
  l.heard(one, start + seconds(1));
  EXPECT_FALSE(l.silent(one, start + seconds(3)));
  EXPECT_TRUE(l.silent(two, start + seconds(3)));
}

TEST(liveness, watching_again_keeps_what_was_heard) {
  auto l = watching_both();
  l.watch(members({one}), start + seconds(1));
  EXPECT_TRUE(l.silent(one, start + milliseconds(2001)));
  EXPECT_TRUE(l.silent(two, start + seconds(1)));
}

TEST(liveness, a_lost_connection_leaves_a_shorter_time_to_be_heard) {
  auto l = watching_both();
  l.heard(one, start + seconds(10));
  l.lost(one, start + seconds(10));
  EXPECT_FALSE(l.silent(one, start + seconds(11)));
  // Reports the broken connection a second time, which must not move the deadline.
  l.lost(one, start + seconds(11));
  EXPECT_TRUE(l.silent(one, start + milliseconds(11001)));
  l.heard(one, start + milliseconds(11002));
  EXPECT_FALSE(l.silent(one, start + seconds(13)));
}

TEST(liveness, the_dead_are_silent_until_they_are_heard) {
  auto l = watching_both();
  l.declare_dead(one);
  EXPECT_TRUE(l.silent(one, start));
  EXPECT_FALSE(l.silent(two, start));
  l.heard(one, start);
  EXPECT_FALSE(l.silent(one, start));
}

TEST(liveness, patience_lasts_until_the_member_is_heard_again) {
  auto l = watching_both();
  l.heard(one, start, milliseconds(100));
  EXPECT_FALSE(l.silent(one, start + milliseconds(2100)));
  EXPECT_TRUE(l.silent(one, start + milliseconds(2101)));
  l.heard(one, start + seconds(1));
  EXPECT_TRUE(l.silent(one, start + milliseconds(3001)));
  l.heard(two, start, milliseconds(100));
  l.heard(two, start + milliseconds(5));
  EXPECT_FALSE(l.silent(two, start + milliseconds(2100))) << "it was heard later, not less";
}

TEST(liveness, nobody_is_blamed_for_our_own_pause) {
  auto l = watching_both();
  l.lost(two, start);
  l.forgive(seconds(10), start + seconds(10));
  EXPECT_FALSE(l.silent(one, start + seconds(11)));
  EXPECT_FALSE(l.silent(two, start + seconds(11)));
  EXPECT_TRUE(l.silent(one, start + milliseconds(12001)));
  EXPECT_TRUE(l.silent(two, start + milliseconds(11001)));
}

} // namespace
} // namespace peercache::discovery
