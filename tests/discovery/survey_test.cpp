#include "discovery/survey.hpp"

#include <gtest/gtest.h>

#include <string>

namespace peercache::discovery::survey_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr auto heartbeat = milliseconds(500);
constexpr auto expiry = seconds(2);

class survey_of : public testing::Test {
protected:
  static std::vector<member> order_of(std::size_t count) {
    std::vector<member> order;
    for (std::size_t i = 0; i < count; ++i) {
      member m;
      m.name = "n" + std::to_string(i);
      m.id = {i + 1};
      m.inc = {1, i + 1};
      m.host = m.name;
      order.push_back(m);
    }
    return order;
  }

  survey made(std::size_t count, std::size_t own) {
    return {order_of(count), {1, own + 1}, heartbeat, expiry, now};
  }
  /// Runs heartbeats, which the nodes `answering` answer, until the survey knows the survivors, and
  /// sets `left` to them. @return How long it took.
  duration beats_until_survivors(survey& one, const std::vector<std::size_t>& answering,
                                 std::vector<member>& left) {
    const auto since = now;
    for (left.clear(); left.empty() && now < since + seconds(60); now += heartbeat) {
      for (const auto& to : one.to_ask(now))
        for (auto i : answering)
          if (to.host == "n" + std::to_string(i))
            one.heard({1, i + 1}, false, now);
      left = one.survivors(now);
    }
    return now - since;
  }

  time_point now{std::chrono::hours(1)};
};

TEST_F(survey_of, the_first_one_living_finds_all_who_are_left) {
  auto one = made(10, 2);
  std::vector<member> left;
  const auto took = beats_until_survivors(one, {5, 9}, left);
  ASSERT_EQ(left.size(), 3u);
  EXPECT_EQ(left[0].name, "n2");
  EXPECT_EQ(left[1].name, "n5");
  EXPECT_EQ(left[2].name, "n9");
  EXPECT_GE(took, survey::waits * expiry + survey::gathers * heartbeat);
}

TEST_F(survey_of, the_others_leave_it_to_the_first_and_ask_nobody_else) {
  auto one = made(1000, 700);
  std::vector<member> left;
  beats_until_survivors(one, {3, 800}, left);
  EXPECT_TRUE(left.empty());
  const auto asked = one.to_ask(now);
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(asked[0].host, "n3");
}

TEST_F(survey_of, when_the_first_one_goes_as_well_the_next_one_does_it) {
  auto one = made(10, 2);
  std::vector<member> left;
  beats_until_survivors(one, {0, 5}, left);
  ASSERT_TRUE(left.empty());
  beats_until_survivors(one, {5}, left);
  EXPECT_EQ(left.size(), 2u);
}

TEST_F(survey_of, of_a_thousand_the_last_one_knows_within_seconds_that_it_is_alone) {
  auto one = made(1000, 999);
  std::vector<member> left;
  const auto took = beats_until_survivors(one, {}, left);
  EXPECT_EQ(left.size(), 1u);
  EXPECT_LE(took, seconds(7));
}

TEST_F(survey_of, nothing_comes_of_it_while_somebody_is_in_touch) {
  auto one = made(5, 0);
  for (const auto until = now + seconds(60); now < until; now += heartbeat) {
    one.heard({1, 4}, true, now);
    EXPECT_TRUE(one.survivors(now).empty());
  }
  std::vector<member> left;
  const auto took = beats_until_survivors(one, {1}, left);
  EXPECT_EQ(left.size(), 2u);
  EXPECT_GE(took, survey::waits * expiry) << "from then on it waits as if it had just begun";
}

TEST_F(survey_of, an_answer_of_another_process_at_the_address_is_none) {
  auto one = made(3, 1);
  std::vector<member> left;
  for (int beat = 0; beat < 20; ++beat, now += heartbeat) {
    one.heard({7, 7}, false, now);
    if (left.empty())
      left = one.survivors(now);
    one.to_ask(now);
  }
  EXPECT_EQ(left.size(), 1u);
}

} // namespace
} // namespace peercache::discovery::survey_test
