#include "client/notes/hold_releases.hpp"

#include "client/calls/hold_plan.hpp"
#include "common/limits.hpp"
#include "link/protocol/pool_wire.hpp"

#include <gtest/gtest.h>

namespace peercache::client {
namespace {

using link::used_page;
using storage::hold_outcome;

std::size_t released_in(const std::vector<hold_releases::of_holder>& messages) {
  std::size_t records = 0;
  for (const auto& [holder, packed] : messages) {
    const auto count = *link::record_count<used_page>(packed);
    EXPECT_LE(count, limits::batch_pages_max);
    records += count;
  }
  return records;
}

TEST(hold_releases, each_holder_is_told_of_its_pages_once) {
  hold_releases releases;
  for (std::uint32_t i = 0; i < 100; ++i)
    releases.add({1, i % 3}, {i}, {2});
  const auto messages = releases.take();
  EXPECT_EQ(messages.size(), 3u);
  EXPECT_EQ(released_in(messages), 100u);
  EXPECT_TRUE(releases.take().empty());
}

TEST(hold_releases, long_messages_are_cut_and_their_number_is_bounded) {
  hold_releases releases;
  for (std::uint32_t i = 0; i < hold_releases::records_max + 10; ++i)
    releases.add({1, 1}, {i}, {2});
  EXPECT_EQ(released_in(releases.take()), hold_releases::records_max);
  releases.add({1, 1}, {7}, {2});
  EXPECT_EQ(released_in(releases.take()), 1u);
}

TEST(hold_releases, those_of_one_holder_go_and_make_room) {
  hold_releases releases;
  releases.add({1, 2}, {5}, {2});
  for (std::uint32_t i = 0; i < hold_releases::records_max; ++i)
    releases.add({1, 1}, {i}, {2});
  std::size_t records = 0;
  for (const auto& packed : releases.take_of({1, 1}))
    records += *link::record_count<used_page>(packed);
  EXPECT_EQ(records, hold_releases::records_max - 1);
  EXPECT_TRUE(releases.take_of({1, 1}).empty());
  releases.add({1, 3}, {7}, {2});
  EXPECT_EQ(released_in(releases.take()), 2u) << "of the other holder, and of the new one";
}

TEST(hold_clock, tells_whether_the_last_hold_may_still_be_open) {
  using namespace std::chrono_literals;
  hold_clock clock;
  const hold_clock::time_point now{100h};
  EXPECT_FALSE(clock.may_hold(now));
  clock.held_until(now + 2s);
  clock.held_until(now + 1s);
  EXPECT_TRUE(clock.may_hold(now + 1500ms));
  EXPECT_FALSE(clock.may_hold(now + 2s));
}

TEST(hold_plan, sorts_pages_by_holder_and_takes_short_answers_for_a_no) {
  hold_plan plan;
  for (std::uint32_t i = 0; i < 4; ++i) {
    directory::page_location at;
    at.holder = {1, i % 2};
    at.slot = {i};
    at.gen = {2 * std::uint64_t{i} + 2};
    plan.add(i, at);
  }
  ASSERT_EQ(plan.shares().size(), 2u);
  EXPECT_EQ(plan.shares()[1].indices, (std::vector<std::uint32_t>{1, 3}));
  EXPECT_EQ(link::record_at<used_page>(plan.shares()[1].request, 1).gen.value, 8u);
  const std::string answer{static_cast<char>(hold_outcome::held), 17};
  EXPECT_EQ(hold_plan::outcome(answer, 0), hold_outcome::held);
  EXPECT_EQ(hold_plan::outcome(answer, 1), hold_outcome::gone);
  EXPECT_EQ(hold_plan::outcome(answer, 2), hold_outcome::gone);
}

} // namespace
} // namespace peercache::client
