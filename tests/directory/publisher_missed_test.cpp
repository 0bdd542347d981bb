// Tests of what a publisher tells an owner that missed a page which other owners were told as well.
#include "directory/publisher.hpp"

#include "tests/directory/publisher_fixture.hpp"

namespace peercache::directory::publisher_missed_test {
namespace {

using namespace std::chrono_literals;

class publisher_missed_test : public publisher_fixture {};

/// An owner that failed at once, as one without a connection does, hears of the page when it can:
/// not when another owner, which is frozen, has failed as well.
TEST_F(publisher_missed_test, an_owner_that_missed_a_put_is_told_again_while_another_is_silent) {
  put({1}, link::commit_mode::store);
  const auto told = take<publisher::tell>();
  ASSERT_EQ(told.size(), 2u);
  machine->failed(told[1].id, now);
  EXPECT_TRUE(take<publisher::tell>().empty()) << "no hot loop";
  for (int i = 0; i < 3; ++i) {
    pass(50ms);
    const auto again = only_tell(told[1].owner);
    if (i < 2)
      machine->failed(again.id, now);
    else
      answer(again, outcome::accepted);
  }
  machine->failed(told[0].id, now);
  pass(50ms);
  answer(only_tell(told[0].owner), outcome::accepted);
  EXPECT_TRUE(machine->idle());
}

TEST_F(publisher_missed_test, of_a_promoted_page_an_owner_is_told_again_while_another_is_silent) {
  const auto fills = filled({1});
  machine->restore(fills, now);
  const auto told = take<publisher::tell>();
  ASSERT_EQ(told.size(), 2u);
  machine->failed(told[0].id, now);
  pass(50ms);
  answer(only_tell(told[0].owner), outcome::duplicate);
  EXPECT_TRUE(pool->find(key(1))) << "the silent owner may have recorded it";
  answer(told[1], outcome::accepted);
  pass(50ms);
  for (const auto& order : take<publisher::tell>())
    answer(order, outcome::duplicate);
  EXPECT_FALSE(pool->find(key(1))) << "both know it elsewhere by now";
}

/// What an owner missed of a put does not wait behind what a change of the cluster has to tell.
TEST_F(publisher_missed_test, a_put_that_an_owner_missed_is_not_held_to_the_budget) {
  options.republish_rate = 8; // Records per second; 8 allows two at once.
  restart();
  SetUp();
  put_for_good({1, 2, 3, 4, 5, 6});
  machine->publish_again(now);
  records_told();
  put({7}, link::commit_mode::store);
  const auto told = take<publisher::tell>();
  ASSERT_EQ(told.size(), 2u);
  answer(told[0], outcome::accepted);
  machine->failed(told[1].id, now);
  machine->tick(now);
  const auto again = records(only_tell(told[1].owner)); // No budget is left for other pages.
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].key, key(7));
}

TEST_F(publisher_missed_test, puts_that_an_owner_out_of_reach_misses_are_not_remembered_for_ever) {
  machine->follow(view_of(1, members, members[1].id), now);
  for (std::size_t i = 0; i < 3 * unpublished_pages::chunk_pages; ++i) {
    put({1}, link::commit_mode::store);
    for (const auto& order : take<publisher::tell>())
      if (order.owner == members[0].id)
        answer(order, outcome::accepted);
      else
        machine->failed(order.id, now);
    machine->tick(now);
    ASSERT_LE(machine->unpublished(), unpublished_pages::chunk_pages);
    if (i % 2 == 0)
      evict(1);
    machine->send_withdrawals();
    for (const auto& order : take<publisher::take_back>())
      machine->answered(order.id, std::uint64_t{1}, now);
    take<publisher::settled>();
  }
}

} // namespace
} // namespace peercache::directory::publisher_missed_test
