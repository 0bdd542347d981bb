#include "directory/publisher.hpp"

#include "tests/directory/publisher_fixture.hpp"

#include <set>

namespace peercache::directory::publisher_test {
namespace {

using namespace std::chrono_literals;
using testing::Test;

class publisher_test : public publisher_fixture {};

// -- tests of puts

TEST_F(publisher_test, a_put_is_settled_when_one_owner_has_recorded_it) {
  const auto id = put({1});
  const auto told = take<publisher::tell>();
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ((std::set{told[0].owner, told[1].owner}), (std::set{members[0].id, members[1].id}));
  const auto record = records(told[0]).at(0);
  EXPECT_EQ(record.key, key(1));
  EXPECT_EQ(record.location.holder, options.inc);
  EXPECT_EQ(record.location.gen, held(1).gen);
  EXPECT_EQ(record.mode, publish_mode::if_absent);
  EXPECT_TRUE(take<publisher::settled>().empty());
  answer(told[0], outcome::accepted);
  const auto said = take<publisher::settled>();
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0].put, id);
  EXPECT_EQ(status(said[0]), page_status::stored);
  answer(told[1], outcome::accepted);
  pass(1s);
  EXPECT_TRUE(take<publisher::settled>().empty()) << "once";
  EXPECT_TRUE(take<publisher::tell>().empty());
  EXPECT_TRUE(machine->idle());
}

TEST_F(publisher_test, a_put_that_nobody_answers_is_unreachable_after_a_quarter_of_the_time) {
  put({1});
  pass(249ms);
  EXPECT_TRUE(take<publisher::settled>().empty());
  pass(1ms);
  const auto said = take<publisher::settled>();
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(status(said[0]), page_status::unreachable);
  EXPECT_TRUE(pool->find(key(1)));
  fail(take<publisher::tell>());
  EXPECT_TRUE(take<publisher::settled>().empty()) << "once";
  pass(50ms);
  EXPECT_EQ(take<publisher::tell>().size(), 2u) << "both are told once more";
}

TEST_F(publisher_test, a_page_that_all_owners_know_elsewhere_is_dropped_and_withdrawn) {
  put({1});
  const auto told = take<publisher::tell>();
  answer(told[0], outcome::duplicate);
  EXPECT_TRUE(pool->find(key(1))) << "the other owner may rely on it";
  EXPECT_TRUE(take<publisher::settled>().empty());
  const auto gen = held(1).gen;
  answer(told[1], outcome::duplicate);
  EXPECT_EQ(status(take<publisher::settled>().at(0)), page_status::duplicate);
  EXPECT_FALSE(pool->find(key(1)));
  pass(50ms);
  const auto withdrawn = take<publisher::take_back>();
  ASSERT_EQ(withdrawn.size(), 2u);
  EXPECT_EQ(records(withdrawn[0]).at(0).gen, gen);
}

TEST_F(publisher_test, a_page_that_was_put_again_meanwhile_is_not_dropped_for_the_first_one) {
  put({1});
  const auto told = take<publisher::tell>();
  evict(1);
  put_for_good({1});
  for (const auto& order : told)
    answer(order, outcome::duplicate);
  EXPECT_TRUE(pool->find(key(1)));
}

TEST_F(publisher_test, in_a_tie_the_copy_that_an_owner_has_recorded_stays_and_both_hear_of_it) {
  put({1});
  const auto told = take<publisher::tell>();
  answer(told[0], outcome::accepted);
  answer(told[1], outcome::duplicate);
  EXPECT_TRUE(pool->find(key(1)));
  pass(50ms);
  const auto again = take<publisher::tell>();
  ASSERT_EQ(again.size(), 2u);
  EXPECT_EQ(records(again[0]).at(0).mode, publish_mode::always);
}

TEST_F(publisher_test, a_page_stays_while_an_owner_has_not_said_what_it_did_with_it) {
  put({1});
  const auto told = take<publisher::tell>();
  answer(told[0], outcome::duplicate);
  machine->failed(told[1].id, now);
  EXPECT_EQ(status(take<publisher::settled>().at(0)), page_status::stored);
  EXPECT_TRUE(pool->find(key(1)));
}

TEST_F(publisher_test, a_node_in_no_view_keeps_its_pages_to_itself_until_it_is_in_one) {
  restart();
  put({1});
  EXPECT_EQ(status(take<publisher::settled>().at(0)), page_status::unreachable);
  pass(50ms);
  EXPECT_TRUE(take<publisher::tell>().empty());
  follow(1);
  EXPECT_EQ(take<publisher::tell>().size(), 2u);
}

TEST_F(publisher_test, what_stays_is_written_through_and_what_is_dropped_is_not) {
  options.write_through = true;
  restart();
  SetUp();
  put({1, 2});
  for (const auto& order : take<publisher::tell>())
    machine->answered(order.id,
                      {static_cast<char>(outcome::accepted), static_cast<char>(outcome::duplicate)},
                      now);
  const auto said = take<publisher::settled>().at(0);
  ASSERT_EQ(said.keep.size(), 1u);
  EXPECT_EQ(said.keep[0].key, key(1));
  put({3}, link::commit_mode::mirror);
  answer_all();
  EXPECT_TRUE(take<publisher::settled>().at(0).keep.empty());
}

TEST_F(publisher_test, an_answer_that_comes_twice_is_a_fault_of_ours) {
  put({1});
  const auto told = take<publisher::tell>();
  answer(told[0], outcome::accepted);
  EXPECT_DEATH(answer(told[0], outcome::accepted), "");
  EXPECT_DEATH(machine->failed(told[0].id, now), "");
}

// -- tests of mirrors

TEST_F(publisher_test, mirrors_have_their_share_and_no_more) {
  options.mirrored_bytes_max = 2 * 4096;
  restart();
  SetUp();
  put({1, 2, 3}, link::commit_mode::mirror);
  for (const auto& order : take<publisher::tell>()) {
    EXPECT_EQ(records(order).size(), 2u);
    EXPECT_TRUE(records(order).at(0).location.mirrored);
    answer(order, outcome::accepted);
  }
  const auto said = take<publisher::settled>().at(0);
  EXPECT_EQ(status(said, 0), page_status::stored);
  EXPECT_EQ(status(said, 2), page_status::no_space);
  EXPECT_EQ(machine->totals().mirrored, 2u);
  EXPECT_EQ(machine->totals().mirrored_refused, 1u);
  EXPECT_EQ(pool->stats().filling, 0u) << "its slot is free again";
  evict(1);
  EXPECT_EQ(machine->mirrors().bytes(), 4096u);
}

TEST_F(publisher_test, only_pages_of_this_member_are_shown_before_they_are_evicted) {
  options.mirrored_bytes_max = 2 * 4096;
  restart();
  SetUp();
  put({1}, link::commit_mode::mirror);
  answer_all();
  put_for_good({2});
  std::vector<page_key> shown;
  const auto look = [&](const storage::resident_page& page) { shown.push_back(page.key); };
  const auto victims = machine->evict_ahead(look, pool->capacity_bytes());
  EXPECT_EQ(victims.size(), 2u);
  EXPECT_EQ(shown, std::vector{key(2)}) << "the mirrored page is kept elsewhere";
  EXPECT_EQ(machine->mirrors().bytes(), 0u);
  machine->send_withdrawals();
  EXPECT_EQ(records(take<publisher::take_back>().at(0)).size(), 2u);
}

TEST_F(publisher_test, a_mirror_that_no_owner_wants_is_dropped) {
  options.mirrored_bytes_max = 1u << 20;
  restart();
  SetUp();
  put({1}, link::commit_mode::mirror);
  for (const auto& order : take<publisher::tell>())
    answer(order, outcome::refused);
  EXPECT_EQ(status(take<publisher::settled>().at(0)), page_status::duplicate);
  EXPECT_FALSE(pool->find(key(1)));
  EXPECT_EQ(machine->mirrors().bytes(), 0u);
}

// -- tests of changes of the cluster

TEST_F(publisher_test, only_new_owners_are_told_after_the_next_view) {
  put_for_good({1, 2, 3});
  auto more = members;
  more.push_back({});
  more.back().name = "third";
  more.back().id = node_id_of("third");
  more.back().inc = {1, 3};
  machine->follow(view_of(2, more), now);
  std::size_t expected = 0;
  const discovery::hash_ring ring(more);
  for (const auto number : {1, 2, 3})
    expected += ring.owns(more.back().id, key(number), 2) ? 1 : 0;
  ASSERT_GT(expected, 0u) << "choose other keys";
  EXPECT_EQ(records(only_tell(more.back().id)).size(), expected);
}

TEST_F(publisher_test, after_a_view_that_was_missed_everybody_is_told_everything) {
  put_for_good({1, 2});
  follow(2);
  EXPECT_TRUE(take<publisher::tell>().empty()) << "nobody is new";
  follow(4);
  const auto told = take<publisher::tell>();
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(records(told[0]).size() + records(told[1]).size(), 4u);
}

TEST_F(publisher_test, after_a_view_without_this_node_everybody_is_told_everything) {
  put_for_good({1});
  machine->follow(view_of(2, {members[1]}), now);
  EXPECT_TRUE(take<publisher::tell>().empty());
  put({2});
  EXPECT_TRUE(take<publisher::tell>().empty()) << "nobody may know what is here";
  follow(3);
  std::size_t sent = 0;
  for (const auto& order : take<publisher::tell>())
    sent += records(order).size();
  EXPECT_EQ(sent, 4u);
}

TEST_F(publisher_test, a_view_that_comes_twice_changes_nothing) {
  put_for_good({1});
  follow(1);
  EXPECT_TRUE(take<publisher::tell>().empty());
  EXPECT_TRUE(take<publisher::walk_disk>().empty());
}

TEST_F(publisher_test, publishing_again_keeps_to_the_budget) {
  options.republish_rate = 8; // Records per second; 8 allows two at once.
  restart();
  SetUp();
  put_for_good({1, 2, 3, 4, 5, 6});
  machine->publish_again(now);
  EXPECT_EQ(machine->unpublished() + machine->totals().republished, 12u) << "each to each owner";
  auto all = records_told();
  EXPECT_LE(all, 2u);
  pass(500ms);
  all += records_told();
  EXPECT_LE(all, 6u);
  for (int i = 0; i < 20; ++i) {
    pass(125ms);
    all += records_told();
  }
  EXPECT_EQ(all, 12u);
  walk_all({});
  EXPECT_TRUE(machine->idle());
}

TEST_F(publisher_test, the_smallest_budget_is_enough_for_one_record_at_a_time) {
  options.republish_rate = 1;
  restart();
  SetUp();
  put_for_good({1});
  machine->publish_again(now);
  std::size_t all = records_told();
  for (int i = 0; i < 5; ++i) {
    pass(1000ms);
    all += records_told();
  }
  EXPECT_EQ(all, 2u) << "each to each owner";
}

TEST_F(publisher_test, an_owner_out_of_reach_costs_nothing_and_hears_when_it_is_back) {
  put_for_good({1});
  machine->follow(view_of(3, members, members[1].id), now);
  answer(only_tell(members[0].id), outcome::accepted);
  pass(50ms);
  EXPECT_TRUE(take<publisher::tell>().empty());
  EXPECT_EQ(machine->totals().republished, 1u);
  follow(3); // In view 3 the owner's connection is back.
  pass(50ms);
  only_tell(members[1].id);
}

TEST_F(publisher_test, a_chunk_that_was_not_heard_waits_for_the_next_tick) {
  put_for_good({1});
  machine->publish_again(now);
  fail(take<publisher::tell>());
  EXPECT_TRUE(take<publisher::tell>().empty()) << "no hot loop";
  pass(50ms);
  EXPECT_EQ(take<publisher::tell>().size(), 2u);
}

/// When all owners must hear of a page, the answer of one owner does not settle the page: the other
/// owner may still fail.
TEST_F(publisher_test, what_all_owners_are_to_hear_is_open_until_each_has_answered) {
  put({1}, link::commit_mode::store);
  fail(take<publisher::tell>());
  pass(50ms);
  const auto told = take<publisher::tell>();
  ASSERT_EQ(told.size(), 2u);
  answer(told[0], outcome::accepted);
  EXPECT_FALSE(machine->idle());
  machine->failed(told[1].id, now);
  EXPECT_TRUE(take<publisher::tell>().empty());
  pass(50ms);
  const auto again = only_tell(told[1].owner); // The first one has heard of it.
  EXPECT_FALSE(machine->idle());
  answer(again, outcome::accepted);
  EXPECT_TRUE(machine->idle());
}

TEST_F(publisher_test, leaving_withdraws_everything_and_ends_when_all_have_answered) {
  put_for_good({1, 2});
  const auto leaving = machine->leave();
  const auto sent = take<publisher::take_back>();
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(records(sent[0]).size(), 2u);
  machine->answered(sent[0].id, std::uint64_t{2}, now);
  EXPECT_TRUE(take<publisher::has_left>().empty());
  machine->failed(sent[1].id, now);
  const auto left = take<publisher::has_left>();
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(left[0].leaving, leaving);
  put({3});
  follow(4);
  pass(50ms);
  EXPECT_TRUE(take<publisher::tell>().empty()) << "it has left for good";
}

TEST_F(publisher_test, who_is_in_no_view_has_left_at_once) {
  restart();
  machine->leave();
  EXPECT_EQ(take<publisher::has_left>().size(), 1u);
}

TEST_F(publisher_test, pages_of_the_process_before_are_told_to_each_owner) {
  put_for_good({1});
  const auto page = held(1);
  machine->adopted({&page, 1}, now);
  EXPECT_EQ(take<publisher::tell>().size(), 2u);
}

} // namespace
} // namespace peercache::directory::publisher_test
