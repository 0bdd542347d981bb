#include "tests/client/actors/call_rig.hpp"

#include <array>
#include <atomic>

namespace peercache::client {
namespace {

class set_call_test : public call_rig {
protected:
  void expect_all(const std::vector<page_result>& results, page_status wanted) {
    for (const auto& result : results)
      EXPECT_EQ(result.status, wanted) << to_string(result.status);
  }
  /// Leaves commits unanswered until the test answers them.
  void hold_commits() { near.says.statuses_of = nullptr; }
  static slot_id slot_of(const std::string& packed) { return link::record_at<slot_id>(packed, 0); }
};

TEST_F(set_call_test, a_page_is_found_on_this_host_before_its_node_knows_it) {
  start();
  hold_commits();
  expect_all(set({1}), status::stored);
  EXPECT_EQ(flush(at_once()), std::nullopt) << "it is under way";
  expect_hit(1, page_origin::own_host);
  EXPECT_EQ(questions(), 0u) << "nobody was asked for it";
  await(near, [this] { return !near.says.commits.empty(); });
  in_gateway(near, [this] {
    near.says.commits[0].deliver(near.publish(near.says.committed[0]), std::string{});
  });
  EXPECT_EQ(flush()->failed, 0u);
}

TEST_F(set_call_test, reads_of_a_page_before_its_node_knows_it_count_as_those_afterwards) {
  start();
  hold_commits();
  expect_all(set({1}), status::stored);
  expect_hit(1, page_origin::own_host);
  expect_hit(1, page_origin::own_host);
  await(near, [this] { return !near.says.commits.empty(); });
  in_gateway(near, [this] {
    near.says.commits[0].deliver(near.publish(near.says.committed[0]), std::string{});
  });
  EXPECT_EQ(flush()->failed, 0u);
  expect_hit(1, page_origin::own_host);
  const auto told = link::record_at<link::filled_slot>(near.says.committed[0], 0);
  EXPECT_EQ(near.memory.slots().take_uses(told.slot), 3u);
}

TEST_F(set_call_test, the_node_is_told_key_length_and_checksum_in_the_order_of_the_call) {
  start();
  expect_all(set({4, 2}), status::stored);
  EXPECT_EQ(flush()->failed, 0u);
  ASSERT_EQ(near.says.committed.size(), 1u);
  for (std::size_t at = 0; const std::size_t i : {4u, 2u}) {
    const auto told = link::record_at<link::filled_slot>(near.says.committed[0], at++);
    EXPECT_EQ(told.key, key(i));
    EXPECT_EQ(told.length_bytes, page_bytes);
    EXPECT_EQ(told.checksum, checksum_of(bytes_of(i)));
  }
}

TEST_F(set_call_test, the_next_set_of_this_length_asks_for_no_slots) {
  start();
  set({1, 2});
  flush();
  EXPECT_EQ(near.says.reservations.size(), 1u);
  expect_all(set({3, 4}), status::stored);
  flush();
  EXPECT_EQ(near.says.reservations.size(), 1u) << "they came with the acknowledgement";
  expect_hit(3, page_origin::own_host);
}

TEST_F(set_call_test, pages_of_several_parts_lie_one_part_behind_the_other) {
  start();
  const auto bytes = bytes_of(1);
  const std::array<const_part, 3> parts{const_part{bytes.data(), 100},
                                        const_part{bytes.data() + 100, 1},
                                        const_part{bytes.data() + 101, page_bytes - 101}};
  expect_all(set_pages(std::array{set_page{key(1), parts}}), status::stored);
  expect_hit(1, page_origin::own_host);
}

TEST_F(set_call_test, a_malformed_page_does_not_keep_the_others_out) {
  start();
  const auto bytes = bytes_of(1);
  const std::array good{const_part{bytes.data(), page_bytes}};
  const auto results = set_pages(std::array{set_page{key(0), {}}, set_page{key(1), good}});
  EXPECT_EQ(results[0].status, status::bad_size);
  EXPECT_EQ(results[1].status, status::stored);
  EXPECT_EQ(client->totals.set_bytes, page_bytes);
}

TEST_F(set_call_test, a_page_that_is_in_the_pool_is_no_work_and_counts_as_used) {
  start();
  const auto held = near.hold(key(1), bytes_of(1));
  expect_all(set({1}), status::duplicate);
  EXPECT_EQ(flush()->failed, 0u);
  EXPECT_TRUE(near.says.committed.empty());
  EXPECT_EQ(near.memory.slots().take_uses(held.slot), 1u);
}

TEST_F(set_call_test, a_client_that_stores_duplicates_stores_what_is_there) {
  client_options options;
  options.duplicate = duplicate_mode::store;
  start(options);
  near.hold(key(1), bytes_of(1));
  expect_all(set({1}), status::stored);
  flush();
  EXPECT_EQ(near.says.modes, std::vector{link::commit_mode::store});
}

TEST_F(set_call_test, without_a_node_nothing_is_stored) {
  start();
  board().set_pool(nullptr);
  expect_all(set({1, 2}), status::unreachable);
}

TEST_F(set_call_test, without_any_time_no_slot_is_asked_for) {
  start();
  expect_all(set({1, 2}, at_once()), status::timed_out);
  settle(near);
  EXPECT_TRUE(near.says.reservations.empty());
  EXPECT_EQ(flush(at_once())->failed, 0u) << "nothing is in the window";
}

TEST_F(set_call_test, a_node_without_room_refuses_some_pages_and_takes_the_others) {
  start();
  near.says.slots_for = [this](const std::string& lengths) {
    std::string slots;
    link::append_record(slots, link::no_slot);
    if (lengths.size() == 3 * sizeof(std::uint32_t))
      link::append_record(slots, near.new_slot(page_bytes));
    return slots; // Only two slots, so the third page gets none.
  };
  const auto results = set({1, 2, 3});
  EXPECT_EQ(results[0].status, status::no_space);
  EXPECT_EQ(results[1].status, status::stored);
  EXPECT_EQ(results[2].status, status::no_space);
  EXPECT_GT(near.says.reservations.size(), 2u) << "it is asked again, in case others give way";
  expect_hit(2, page_origin::own_host);
}

TEST_F(set_call_test, a_page_waits_a_moment_for_others_to_give_way) {
  start();
  near.says.slots_for = [this](const std::string&) {
    std::string slots;
    link::append_record(slots, near.says.reservations.size() < 3 ? link::no_slot
                                                                 : near.new_slot(page_bytes));
    return slots;
  };
  expect_all(set({1}), status::stored);
  EXPECT_EQ(near.says.reservations.size(), 3u);
  expect_hit(1, page_origin::own_host);
}

TEST_F(set_call_test, a_slot_that_the_node_took_back_is_not_shown_and_goes_back) {
  start();
  near.says.slots_for = [](const std::string&) {
    std::string slots;
    link::append_record(slots, slot_id{9}); // A slot that the node has taken back.
    return slots;
  };
  expect_all(set({1}), status::refused);
  EXPECT_EQ(flush()->failed, 0u) << "its caller knows already";
  settle(near);
  EXPECT_EQ(slot_of(near.says.abandoned), slot_id{9});
  EXPECT_TRUE(near.says.committed.empty());
}

TEST_F(set_call_test, a_set_that_waits_for_room_in_the_window_ends_with_the_client) {
  client_options options;
  options.unacknowledged_bytes_max = page_bytes;
  start(options);
  hold_commits();
  expect_all(set({1}), status::stored);
  std::vector<page_result> waiting;
  std::thread caller([&] { waiting = set({2}); });
  client->close();
  caller.join();
  expect_all(waiting, status::closed);
  EXPECT_EQ(near.says.reservations.size(), 1u) << "only the first set came so far";
}

TEST_F(set_call_test, a_set_that_waits_for_slots_ends_with_the_client_and_gives_them_back) {
  start();
  near.says.slots_for = nullptr;
  std::vector<page_result> waiting;
  std::thread caller([&] { waiting = set({1}); });
  await(near, [this] { return !near.says.reservations.empty(); });
  client->close();
  caller.join();
  expect_all(waiting, status::closed);
  std::string late;
  in_gateway(near, [&] {
    link::append_record(late, near.new_slot(page_bytes));
    near.says.reservations[0].deliver(late);
  });
  await(near, [&] { return near.says.abandoned == late; });
}

} // namespace
} // namespace peercache::client
