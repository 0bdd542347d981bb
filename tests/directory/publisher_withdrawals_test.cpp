// Tests of how a publisher withdraws the records of pages that are gone.

#include "directory/publisher.hpp"

#include "tests/directory/publisher_fixture.hpp"

namespace peercache::directory::publisher_withdrawals_test {
namespace {

using namespace std::chrono_literals;

class publisher_withdrawals_test : public publisher_fixture {};

TEST_F(publisher_withdrawals_test,
       a_withdrawal_that_an_owner_has_not_heard_is_sent_again_a_few_times) {
  put_for_good({1});
  const auto gen = held(1).gen;
  evict(1);
  pass(50ms);
  auto sent = take<publisher::take_back>();
  ASSERT_EQ(sent.size(), 2u);
  for (const auto& order : sent) {
    EXPECT_EQ(records(order).at(0).key, key(1));
    EXPECT_EQ(records(order).at(0).gen, gen);
    EXPECT_EQ(records(order).at(0).holder, options.inc);
    machine->answered(order.id, std::uint64_t{1}, now);
  }
  pass(50ms);
  EXPECT_TRUE(take<publisher::take_back>().empty()) << "both have heard";
  put_for_good({2});
  evict(2);
  std::size_t attempts = 0;
  for (; attempts < 100; ++attempts) {
    pass(50ms);
    sent = take<publisher::take_back>();
    if (sent.empty())
      break;
    machine->failed(sent[0].id, now);
    for (std::size_t i = 1; i < sent.size(); ++i)
      machine->answered(sent[i].id, std::uint64_t{1}, now);
  }
  EXPECT_EQ(attempts, publisher::withdraw_attempts_max);
  EXPECT_TRUE(machine->idle());
}

TEST_F(publisher_withdrawals_test,
       a_wait_for_withdrawals_ends_when_each_owner_has_answered_or_cannot) {
  put_for_good({1, 2});
  machine->remove(packed({1}));
  const auto wait = machine->when_withdrawn(now);
  const auto told = take<publisher::take_back>();
  ASSERT_EQ(told.size(), 2u);
  // This withdrawal must not delay the caller that waits for an earlier one.
  machine->remove(packed({2}));
  machine->answered(told[0].id, std::uint64_t{1}, now);
  EXPECT_TRUE(take<publisher::withdrawn>().empty());
  machine->failed(told[1].id, now);
  const auto ended = take<publisher::withdrawn>();
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].wait, wait);
}

TEST_F(publisher_withdrawals_test, a_wait_for_withdrawals_ends_after_a_quarter_of_the_owners_time) {
  put_for_good({1});
  machine->remove(packed({1}));
  machine->when_withdrawn(now);
  pass(options.directory_timeout / 4 - 1ms);
  EXPECT_TRUE(take<publisher::withdrawn>().empty());
  pass(1ms);
  EXPECT_EQ(take<publisher::withdrawn>().size(), 1u);
}

TEST_F(publisher_withdrawals_test, where_nothing_is_being_withdrawn_nothing_is_waited_for) {
  machine->remove(packed({1}));
  machine->when_withdrawn(now);
  EXPECT_EQ(take<publisher::withdrawn>().size(), 1u);
}

TEST_F(publisher_withdrawals_test, withdrawals_without_room_are_dropped_and_counted) {
  options.withdrawals_max = 2;
  restart();
  SetUp();
  put_for_good({1, 2, 3});
  for (const auto number : {1, 2, 3})
    evict(number);
  EXPECT_EQ(machine->totals().withdrawals_dropped, 1u);
  pass(50ms);
  EXPECT_EQ(records(take<publisher::take_back>().at(0)).size(), 2u);
}

TEST_F(publisher_withdrawals_test, what_is_evicted_outside_of_a_view_is_withdrawn_inside_one) {
  restart();
  put({1});
  evict(1);
  pass(50ms);
  EXPECT_TRUE(take<publisher::take_back>().empty());
  follow(1);
  pass(50ms);
  EXPECT_EQ(take<publisher::take_back>().size(), 2u);
}

} // namespace
} // namespace peercache::directory::publisher_withdrawals_test
