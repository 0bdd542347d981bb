// Tests of an `exists` that holds the pages that it finds, and of the reads that end its holds.

#include "storage/page_holds.hpp"
#include "tests/client/actors/call_rig.hpp"

namespace peercache::client {
namespace {

using namespace std::chrono_literals;
using storage::hold_outcome;

class hold_call_test : public call_rig {
protected:
  hold_call_test() { near.memory.holds().limit(8); }

  static std::string every(const std::string& pages, hold_outcome outcome) {
    return std::string(*link::record_count<link::used_page>(pages), static_cast<char>(outcome));
  }
  directory::page_location publish_far(std::size_t i) {
    const auto place = far.hold(key(i), bytes_of(i));
    shard.record(key(i), {place});
    return place;
  }
  std::vector<page_result> exists(const std::vector<std::size_t>& which,
                                  const exists_hold& hold = {2s}, bool chain = false) {
    std::vector<page_result> results(which.size());
    std::vector<page_key> keys;
    for (const auto i : which)
      keys.push_back(key(i));
    hold_call holds{*client, hold, results, soon(), chain};
    exists_call{*client, holds, soon()}.run(0, keys, results, board().pool());
    holds.settle();
    return results;
  }
  bool is_held(const directory::page_location& page) {
    return near.memory.holds().is_held(page.slot, std::chrono::steady_clock::now());
  }
  std::uint64_t counted(hold_fate fate) const {
    return client->totals.holds[static_cast<std::size_t>(fate)];
  }
};

TEST_F(hold_call_test, a_page_of_this_host_is_held_until_this_client_reads_it) {
  start();
  const auto page = near.hold(key(1), bytes_of(1));
  EXPECT_FALSE(exists({1}, {})[0].held);
  EXPECT_FALSE(is_held(page));
  ASSERT_TRUE(exists({1})[0].held);
  EXPECT_TRUE(is_held(page));
  expect_hit(1, page_origin::own_host);
  EXPECT_FALSE(is_held(page));
  EXPECT_EQ(counted(hold_fate::held), 1u);
}

TEST_F(hold_call_test, a_read_ends_no_hold_of_another_client) {
  start();
  const auto page = near.hold(key(1), bytes_of(1));
  const auto now = std::chrono::steady_clock::now();
  ASSERT_EQ(near.memory.holds().hold(page.slot, 1, {board().hold_tag.value + 1}, now, now + 5s),
            hold_outcome::held);
  near.hold(key(2), bytes_of(2));
  ASSERT_TRUE(exists({2})[0].held);
  expect_hit(1, page_origin::own_host);
  EXPECT_TRUE(is_held(page));
}

TEST_F(hold_call_test, a_page_whose_pool_has_no_room_for_holds_is_found_and_not_held) {
  start();
  near.memory.holds().limit(1);
  near.hold(key(1), bytes_of(1));
  near.hold(key(2), bytes_of(2));
  const auto results = exists({1, 2});
  EXPECT_TRUE(results[0].held);
  EXPECT_EQ(results[1].status, status::hit);
  EXPECT_FALSE(results[1].held);
  EXPECT_EQ(counted(hold_fate::refused), 1u);
}

TEST_F(hold_call_test, a_longer_hold_than_the_longest_is_shortened) {
  start();
  publish_far(1);
  far.says.holds = [](const std::string& pages) { return every(pages, hold_outcome::held); };
  EXPECT_TRUE(exists({1}, {std::chrono::milliseconds{1ll << 32}})[0].held);
  settle(far);
  EXPECT_EQ(far.says.held_ms, exists_hold::duration_max.count());
  EXPECT_TRUE(far.says.released.empty()) << "0 ms would end a hold";
}

TEST_F(hold_call_test, the_pages_of_a_group_are_held_all_or_none) {
  start();
  near.memory.holds().limit(3);
  std::vector<directory::page_location> pages;
  for (std::size_t i = 0; i < 4; ++i)
    pages.push_back(near.hold(key(i), bytes_of(i)));
  const auto results = exists({0, 1, 2, 3, 0, 9}, {2s, 2});
  EXPECT_TRUE(results[0].held && results[1].held);
  EXPECT_FALSE(results[2].held || results[3].held) << "there was room for one of them";
  EXPECT_FALSE(results[4].held || results[5].held) << "one of them does not exist";
  EXPECT_TRUE(is_held(pages[0]) && is_held(pages[1]));
  EXPECT_FALSE(is_held(pages[2]) || is_held(pages[3]));
}

TEST_F(hold_call_test, of_a_chain_the_pages_beyond_the_first_gap_are_not_held) {
  start();
  const auto head = near.hold(key(1), bytes_of(1));
  publish_far(2);
  const auto beyond = near.hold(key(4), bytes_of(4));
  publish_far(5);
  far.says.holds = [](const std::string& pages) { return every(pages, hold_outcome::held); };
  const auto results = exists({1, 2, 3, 4, 5}, {2s}, true);
  EXPECT_TRUE(results[0].held && results[1].held);
  EXPECT_EQ(results[2].status, status::not_found);
  for (const std::size_t i : {3, 4}) {
    EXPECT_EQ(results[i].status, status::hit) << "found all the same";
    EXPECT_FALSE(results[i].held);
  }
  EXPECT_TRUE(is_held(head));
  EXPECT_FALSE(is_held(beyond));
  settle(far);
  ASSERT_EQ(far.says.held.size(), 1u);
  EXPECT_EQ(link::record_count<link::used_page>(far.says.held[0]), 1u)
      << "nobody is asked to hold what is beyond the gap";
}

TEST_F(hold_call_test, a_chain_without_a_gap_is_held_as_a_whole) {
  start();
  publish_far(1);
  const auto last = near.hold(key(2), bytes_of(2));
  far.says.holds = [](const std::string& pages) { return every(pages, hold_outcome::held); };
  const auto results = exists({1, 2}, {2s}, true);
  EXPECT_TRUE(results[0].held && results[1].held);
  EXPECT_TRUE(is_held(last));
}

TEST_F(hold_call_test, the_holder_of_another_page_is_asked_once_and_told_of_the_read) {
  start();
  const auto first = publish_far(1);
  publish_far(2);
  publish_far(3);
  far.says.holds = [](const std::string& pages) {
    auto outcomes = every(pages, hold_outcome::held);
    outcomes[1] = static_cast<char>(hold_outcome::refused);
    return outcomes;
  };
  const auto results = exists({1, 2, 3});
  EXPECT_TRUE(results[0].held);
  EXPECT_EQ(results[1].status, status::hit);
  EXPECT_FALSE(results[1].held);
  EXPECT_TRUE(results[2].held);
  settle(far);
  ASSERT_EQ(far.says.held.size(), 1u);
  EXPECT_EQ(far.says.held_ms, 2000u);
  EXPECT_EQ(far.says.holder, board().hold_tag.value);
  expect_hit(1, page_origin::other_host);
  await(far, [&] { return !far.says.released.empty(); });
  ASSERT_EQ(link::record_count<link::used_page>(far.says.released), 1u);
  const auto released = link::record_at<link::used_page>(far.says.released, 0);
  EXPECT_EQ(released.slot, first.slot);
  EXPECT_EQ(released.gen, first.gen);
}

TEST_F(hold_call_test, a_holder_that_is_silent_costs_no_more_than_the_patience) {
  start();
  publish_far(1);
  const auto begun = std::chrono::steady_clock::now();
  const auto result = exists({1})[0];
  EXPECT_EQ(result.status, status::hit);
  EXPECT_FALSE(result.held);
  EXPECT_EQ(counted(hold_fate::unanswered), 1u);
  EXPECT_LT(std::chrono::steady_clock::now() - begun, 30s) << "the deadline is 60 s";
}

TEST_F(hold_call_test, a_hold_whose_answer_is_late_is_taken_back) {
  start();
  const auto page = publish_far(1);
  EXPECT_FALSE(exists({1})[0].held);
  await(far, [&] { return !far.says.released.empty(); });
  const auto released = link::record_at<link::used_page>(far.says.released, 0);
  EXPECT_EQ(released.slot, page.slot);
  EXPECT_EQ(released.gen, page.gen);
}

TEST_F(hold_call_test, a_holder_that_stays_silent_is_not_asked_by_each_call) {
  start();
  publish_far(1);
  for (int i = 0; i < 40; ++i)
    EXPECT_EQ(exists({1})[0].status, status::hit);
  settle(far);
  EXPECT_LT(far.says.held.size(), 20u);
  EXPECT_EQ(counted(hold_fate::unanswered), 40u);
}

TEST_F(hold_call_test, a_read_of_before_ends_no_hold_that_follows) {
  start();
  publish_far(1);
  std::size_t released_before = 0;
  far.says.holds = [&](const std::string& pages) {
    released_before = far.says.released.size();
    return every(pages, hold_outcome::held);
  };
  ASSERT_TRUE(exists({1})[0].held);
  expect_hit(1, page_origin::other_host);
  ASSERT_TRUE(exists({1})[0].held);
  settle(far);
  EXPECT_EQ(released_before, sizeof(link::used_page)) << "the node heard of the read first";
}

TEST_F(hold_call_test, a_page_on_a_disk_is_not_held) {
  start();
  directory::page_location cold;
  cold.node = far.self.id;
  cold.holder = far.self.inc;
  cold.length_bytes = page_bytes;
  cold.where = directory::tier::disk;
  shard.record(key(1), {cold});
  const auto result = exists({1})[0];
  EXPECT_EQ(result.status, status::hit);
  EXPECT_FALSE(result.held);
  EXPECT_EQ(counted(hold_fate::on_disk), 1u);
}

TEST_F(hold_call_test, a_page_that_was_evicted_since_it_was_found_is_not_held) {
  start();
  const auto page = near.hold(key(1), bytes_of(1));
  const auto pool = board().pool();
  near.memory.holds().close_anyway(page.slot, 1, std::chrono::steady_clock::now());
  near.evict(page);
  near.memory.holds().open(page.slot);
  const auto now = std::chrono::steady_clock::now();
  storage::hold_course course{pool->holds, board().hold_tag, now, now + 2s};
  EXPECT_EQ(storage::hold_page(course, pool->slots, page.slot, page.gen, page_bytes),
            hold_outcome::gone);
  EXPECT_FALSE(is_held(page));
}

} // namespace
} // namespace peercache::client
