#include "directory/publisher.hpp"

#include "tests/directory/publisher_fixture.hpp"

#include <functional>
#include <utility>

namespace peercache::directory::publisher_disk_test {
namespace {

using namespace std::chrono_literals;

class publisher_disk_test : public publisher_fixture {};

TEST_F(publisher_disk_test, a_page_that_is_on_disk_too_is_said_to_be_there_when_it_leaves_memory) {
  put_for_good({1});
  const auto page = held(1);
  machine->stored(stored({1}));
  EXPECT_TRUE(machine->marks().kept(page.slot));
  evict(1);
  EXPECT_FALSE(machine->marks().kept(page.slot));
  pass(50ms);
  EXPECT_TRUE(take<publisher::take_back>().empty());
  const auto told = take<publisher::tell>();
  ASSERT_EQ(told.size(), 2u);
  const auto record = records(told[0]).at(0);
  EXPECT_EQ(record.location.where, tier::disk);
  EXPECT_GT(record.location.gen, page.gen);
  EXPECT_EQ(record.location.checksum, 1u);
}

TEST_F(publisher_disk_test, a_page_that_was_evicted_before_it_was_written_is_said_to_be_on_disk) {
  put_for_good({1});
  const auto gen = held(1).gen;
  evict(1);
  machine->stored(stored({1}));
  const auto record = records(take<publisher::tell>().at(0)).at(0);
  EXPECT_EQ(record.location.where, tier::disk);
  EXPECT_GT(record.location.gen, gen);
}

TEST_F(publisher_disk_test, other_bytes_than_those_in_the_slot_are_no_copy_of_the_page) {
  put_for_good({1});
  std::string other;
  link::append_record(other, link::stored_page{key(1), 77, 4096});
  machine->stored(other);
  EXPECT_EQ(machine->marks().kept_count(), 0u);
}

/// An owner without room may refuse the record of a page on disk. When the walk over the disk
/// publishes this page again, its record must count as newer than the owner's record of an older
/// page of the key.
TEST_F(publisher_disk_test, whatever_is_told_last_of_a_page_on_disk_is_the_newest) {
  generation last{};
  const auto is_newer = [&](std::uint32_t length) {
    const auto told = take<publisher::tell>();
    const auto record = records(told.at(0)).at(0);
    EXPECT_EQ(record.location.where, tier::disk);
    EXPECT_EQ(record.location.length_bytes, length);
    EXPECT_GT(record.location.gen, std::exchange(last, record.location.gen));
    for (const auto& order : told)
      answer(order, outcome::accepted);
  };
  put_for_good({1});
  machine->stored(stored({1}));
  evict(1);
  pass(50ms);
  is_newer(4096);
  std::string longer;
  link::append_record(longer, link::stored_page{key(1), 77, 8192});
  machine->publish_disk();
  walk_all(longer);
  is_newer(8192);
  machine->stored(stored({1}));
  is_newer(4096);
  put_for_good({1});
  EXPECT_GT(held(1).gen, last) << "a page in memory is newer than all that was told before";
}

TEST_F(publisher_disk_test, a_page_from_disk_is_not_said_to_be_there_once_others_took_its_place) {
  // The page was set before the older page was promoted, and is on disk only now.
  std::string longer;
  link::append_record(longer, link::stored_page{key(1), 77, 8192});
  const auto by_report = [&] { machine->stored(longer); };
  const auto by_walk = [&] {
    machine->learn_marks();
    walk_all(longer);
  };
  for (const auto& hear : {std::function<void()>(by_report), std::function<void()>(by_walk)}) {
    machine->restore(filled({1}), now);
    answer_all();
    hear();
    EXPECT_FALSE(machine->marks().kept(held(1).slot));
    EXPECT_TRUE(machine->marks().let_go(held(1).slot)) << "it need not be written again";
    evict(1);
    pass(50ms);
    EXPECT_TRUE(take<publisher::tell>().empty());
    EXPECT_EQ(take<publisher::take_back>().size(), 2u);
    answer_all();
  }
}

TEST_F(publisher_disk_test, a_disk_hears_that_it_may_go_on_when_all_owners_were_told) {
  machine->gone(7, packed({1}));
  const auto sent = take<publisher::take_back>();
  ASSERT_EQ(sent.size(), 2u);
  const auto record = records(sent[0]).at(0);
  EXPECT_EQ(record.where, tier::disk);
  EXPECT_EQ(record.gen, pool->newest());
  machine->answered(sent[0].id, std::uint64_t{1}, now);
  EXPECT_TRUE(take<publisher::acknowledge>().empty());
  machine->failed(sent[1].id, now);
  const auto told = take<publisher::acknowledge>();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].ticket, 7u);
  machine->gone(0, packed({2}));
  answer_all();
  EXPECT_TRUE(take<publisher::acknowledge>().empty()) << "nobody waits";
}

TEST_F(publisher_disk_test, a_disk_may_go_on_at_once_when_nobody_is_to_be_told) {
  put_for_good({1});
  machine->stored(stored({1}));
  machine->gone(7, packed({1}));
  EXPECT_TRUE(take<publisher::take_back>().empty()) << "the page is in memory";
  EXPECT_EQ(take<publisher::acknowledge>().size(), 1u);
  EXPECT_FALSE(machine->marks().kept(held(1).slot));
  EXPECT_TRUE(machine->marks().let_go(held(1).slot));
  restart();
  machine->gone(8, packed({1}));
  EXPECT_EQ(take<publisher::acknowledge>().size(), 1u) << "in no view nobody knows anything";
}

TEST_F(publisher_disk_test, a_page_that_comes_from_disk_is_marked_and_told_first) {
  const auto fills = filled({1});
  machine->restore(fills, now);
  EXPECT_TRUE(machine->marks().kept(held(1).slot));
  const auto told = take<publisher::tell>();
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(records(told[0]).at(0).location.where, tier::memory);
}

TEST_F(publisher_disk_test, records_without_room_are_told_by_a_walk_over_the_disk) {
  options.disk_records_max = 4;
  options.walk_pages = 2;
  restart();
  SetUp();
  machine->stored(stored({1, 2, 3, 4, 5, 6}));
  EXPECT_TRUE(take<publisher::walk_disk>().empty()) << "not while others are to be told";
  EXPECT_EQ(records_told(), 8u);
  EXPECT_FALSE(machine->idle());
  pass(50ms);
  const auto walk = take<publisher::walk_disk>();
  ASSERT_EQ(walk.size(), 1u);
  EXPECT_EQ(walk[0].after, 0u);
  machine->walked(walk[0].id, stored({5, 6}), 0);
  EXPECT_EQ(records_told(), 4u);
  EXPECT_TRUE(machine->idle());
}

TEST_F(publisher_disk_test, records_that_an_owner_has_not_heard_come_again) {
  machine->stored(stored({1}));
  fail(take<publisher::tell>());
  EXPECT_TRUE(take<publisher::tell>().empty()) << "no hot loop";
  pass(50ms);
  EXPECT_EQ(records_told(), 2u);
}

TEST_F(publisher_disk_test, a_walk_waits_while_too_much_is_to_be_told) {
  options.disk_records_max = 4;
  options.walk_pages = 2;
  options.chunk_pages = 1;
  restart();
  SetUp();
  machine->publish_disk();
  const auto first = take<publisher::walk_disk>();
  ASSERT_EQ(first.size(), 1u);
  machine->walked(first[0].id, stored({1, 2, 3, 4}), 4);
  EXPECT_TRUE(take<publisher::walk_disk>().empty());
  pass(50ms);
  EXPECT_TRUE(take<publisher::walk_disk>().empty()) << "three of them wait";
  answer_all();
  pass(50ms);
  const auto next = take<publisher::walk_disk>();
  ASSERT_EQ(next.size(), 1u);
  EXPECT_EQ(next[0].after, 4u);
}

TEST_F(publisher_disk_test, a_newer_walk_takes_the_place_of_an_older_one) {
  machine->publish_disk();
  const auto older = take<publisher::walk_disk>().at(0);
  machine->publish_disk();
  const auto newer = take<publisher::walk_disk>().at(0);
  machine->walked(older.id, stored({1}), 1);
  EXPECT_TRUE(take<publisher::tell>().empty());
  EXPECT_TRUE(take<publisher::walk_disk>().empty()) << "it does not go on";
  machine->walked(newer.id, stored({1}), 0);
  EXPECT_EQ(records_told(), 2u);
}

TEST_F(publisher_disk_test, a_walk_that_is_cut_short_by_a_view_tells_everybody) {
  machine->publish_disk();
  const auto older = take<publisher::walk_disk>().at(0);
  follow(2); // View 2 has the same owners as view 1.
  machine->walked(older.id, stored({1}), 0);
  walk_all(stored({1}));
  EXPECT_EQ(records_told(), 2u);
}

TEST_F(publisher_disk_test, a_walk_of_a_view_with_the_same_owners_tells_nobody) {
  follow(2);
  walk_all(stored({1}));
  EXPECT_EQ(records_told(), 0u);
}

TEST_F(publisher_disk_test, learning_what_is_on_disk_too_tells_nobody) {
  put_for_good({1});
  machine->learn_marks();
  walk_all(stored({1, 2}));
  EXPECT_TRUE(machine->marks().kept(held(1).slot));
  EXPECT_EQ(records_told(), 0u);
}

TEST_F(publisher_disk_test, a_removed_page_is_withdrawn_from_memory_and_from_disk) {
  put_for_good({1});
  machine->stored(stored({1}));
  const auto gen = held(1).gen;
  EXPECT_EQ(machine->remove(packed({1, 2})),
            (std::string{static_cast<char>(page_status::hit),
                         static_cast<char>(page_status::not_found)}));
  auto sent = take<publisher::take_back>();
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(records(sent[0]).at(0).gen, gen);
  EXPECT_EQ(records(sent[0]).at(0).where, tier::memory);
  const std::string had(2, static_cast<char>(page_status::hit));
  machine->removed_on_disk(packed({1, 2}), had);
  sent = take<publisher::take_back>();
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(records(sent[0]).size(), 2u);
  EXPECT_EQ(records(sent[0]).at(0).where, tier::disk);
}

TEST_F(publisher_disk_test, a_record_that_waits_is_not_told_after_another_page_took_its_place) {
  machine->stored(stored({9}));
  const auto on_way = take<publisher::tell>();
  machine->stored(stored({1}));
  machine->restore(filled({1}), now);
  std::string longer; // This page was set before the page of the other length was promoted.
  link::append_record(longer, link::stored_page{key(1), 77, 8192});
  machine->stored(longer);
  for (const auto& order : on_way)
    answer(order, outcome::accepted);
  pass(50ms);
  for (const auto& order : take<publisher::tell>())
    for (const auto& record : records(order))
      EXPECT_EQ(record.location.where, tier::memory);
}

TEST_F(publisher_disk_test, a_page_that_gives_way_to_another_length_is_not_told_after_it) {
  put_for_good({1});
  machine->stored(stored({1}));
  std::vector<storage::evicted> victims;
  const auto slot = pool->reserve(8192, victims);
  ASSERT_TRUE(slot && memory->slots().fill(*slot, key(1), 8192, 77));
  machine->put({{*slot, key(1), 8192, 77}}, link::commit_mode::store, now);
  EXPECT_EQ(held(1).length_bytes, 8192u);
  const auto told = take<publisher::tell>();
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(records(told[0]).at(0).location.length_bytes, 8192u);
  for (const auto& order : told)
    answer(order, outcome::accepted);
  pass(50ms);
  EXPECT_TRUE(take<publisher::tell>().empty()) << "the page on disk is the older one";
}

TEST_F(publisher_disk_test, a_page_that_is_put_again_before_the_disk_has_answered_stays) {
  put_for_good({1});
  machine->remove(packed({1}));
  machine->stored(stored({1})); // The disk wrote page 1 just before its removal.
  answer_all();
  put_for_good({2});
  const std::string had(2, static_cast<char>(page_status::hit));
  machine->removed_on_disk(packed({1, 2}), had);
  const auto sent = take<publisher::take_back>();
  ASSERT_EQ(sent.size(), 2u);
  ASSERT_EQ(records(sent[0]).size(), 1u);
  EXPECT_EQ(records(sent[0])[0].key, key(1));
  EXPECT_EQ(records(sent[0])[0].gen, pool->newest()) << "what is withdrawn is newer than all news";
}

TEST_F(publisher_disk_test, a_record_that_waits_is_not_told_after_its_page_was_removed) {
  machine->stored(stored({9}));
  const auto on_way = take<publisher::tell>();
  machine->stored(stored({1}));
  machine->removed_on_disk(packed({1}), {static_cast<char>(page_status::hit)});
  for (const auto& order : on_way)
    answer(order, outcome::accepted);
  EXPECT_EQ(records_told(), 0u);
}

TEST_F(publisher_disk_test, a_record_that_waits_is_not_told_after_the_disk_gave_its_page_up) {
  machine->stored(stored({9}));
  const auto on_way = take<publisher::tell>();
  machine->stored(stored({1}));
  machine->gone(7, packed({1}));
  for (const auto& order : on_way)
    answer(order, outcome::accepted);
  EXPECT_EQ(records_told(), 0u);
}

TEST_F(publisher_disk_test, a_record_that_was_not_heard_before_its_page_went_is_not_told_again) {
  machine->stored(stored({1, 2}));
  const auto on_way = take<publisher::tell>();
  machine->gone(7, packed({1}));
  fail(on_way);
  pass(50ms);
  const auto again = take<publisher::tell>();
  ASSERT_EQ(again.size(), 2u);
  ASSERT_EQ(records(again[0]).size(), 1u);
  EXPECT_EQ(records(again[0]).at(0).key, key(2));
}

// -- tests of comparing the publisher's pages with the directory

TEST_F(publisher_disk_test, an_owner_out_of_reach_is_left_for_the_next_comparison) {
  options.repair.bytes_per_second = 1u << 30;
  restart();
  SetUp();
  put_for_good({1});
  now += 1min;
  std::vector<node_id> asked;
  for (int step = 0; step < 20 && asked.size() < 2; ++step) {
    machine->compare_on(now += 1s);
    walk_all({});
    for (const auto& order : take<publisher::compare>()) {
      asked.push_back(order.owner);
      machine->failed(order.id, now);
    }
  }
  ASSERT_EQ(asked.size(), 2u);
  EXPECT_NE(asked[0], asked[1]);
}

TEST_F(publisher_disk_test, nothing_is_compared_while_something_is_to_be_told) {
  options.repair.bytes_per_second = 1u << 30;
  restart();
  SetUp();
  machine->stored(stored({1}));
  fail(take<publisher::tell>());
  now += 1min;
  for (int step = 0; step < 5; ++step)
    machine->compare_on(now += 1s);
  EXPECT_TRUE(take<publisher::walk_disk>().empty());
  EXPECT_TRUE(take<publisher::compare>().empty());
}

} // namespace
} // namespace peercache::directory::publisher_disk_test
