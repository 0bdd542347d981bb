#include "survival_ring.hpp"

#include <algorithm>
#include <future>

namespace peercache::real::survival_test {

namespace {

using survival = survival_ring;

constexpr std::uint32_t pages = 64;
constexpr milliseconds soon(3000);
constexpr milliseconds long_enough(15'000);

} // namespace

TEST_F(survival, a_frozen_head_is_replaced_within_three_seconds_and_taken_back) {
  start_ring({.count = 3, .heartbeat = milliseconds(500), .expiry = milliseconds(2000)});
  if (HasFatalFailure())
    return;
  freeze(0);
  auto noticed = std::async(std::launch::async, [this] {
    return within_own_time(soon, [this] { return sees(1, 2) && sees(2, 2); });
  });
  // The others go on at once, whatever they believe of the head.
  auto writer = client_of(1);
  auto reader = client_of(2);
  put(*writer, 0, pages);
  EXPECT_EQ(count_existing(*reader, 0, pages), pages);
  EXPECT_TRUE(noticed.get());
  const auto without_head = wait_for_view(2);
  ASSERT_TRUE(without_head);
  EXPECT_EQ(without_head->masters.front(), "node-2");
  EXPECT_TRUE(exchange(2, 1, 1000));
  thaw(0);
  EXPECT_TRUE(within(long_enough, [&] { return one_view({0, 1, 2}); }));
  EXPECT_TRUE(all_readable(*client_of(0), 0, pages));
}

TEST_F(survival, nodes_join_through_another_seed_while_the_head_is_dead) {
  start_ring({.count = 3});
  if (HasFatalFailure())
    return;
  auto writer = client_of(1);
  put(*writer, 0, pages);
  kill(0);
  start_node(all_addresses()); // Its first seed is dead.
  start_node({address(2)});
  ASSERT_FALSE(HasFatalFailure());
  EXPECT_TRUE(within(long_enough, [&] { return one_view({1, 2, 3, 4}); }));
  EXPECT_TRUE(all_readable(*client_of(3), 0, pages));
  EXPECT_TRUE(exchange(3, 4, 1000));
  ASSERT_TRUE(restart(0));
  EXPECT_TRUE(within(long_enough, [&] { return one_view({0, 1, 2, 3, 4}); }));
}

TEST_F(survival, members_that_restart_come_back_though_their_only_seed_is_gone_for_good) {
  start_ring({.count = 5});
  if (HasFatalFailure())
    return;
  const auto seed = address(0);
  kill(4);
  ASSERT_TRUE(within(long_enough, [&] { return one_view({0, 1, 2, 3}); }));
  kill(0);
  ASSERT_TRUE(within(long_enough, [&] { return one_view({1, 2, 3}); }));
  kill(1); // It leads now, and will have forgotten the others when it does again.
  ASSERT_TRUE(within(long_enough, [&] { return one_view({2, 3}); }));
  spawn_again(1, {seed});
  EXPECT_TRUE(within(long_enough, [&] { return one_view({1, 2, 3}); }));
  spawn_again(4, {seed});
  EXPECT_TRUE(within(long_enough, [&] { return one_view({1, 2, 3, 4}); }));
  EXPECT_TRUE(exchange(4, 1, 1000));
}

TEST_F(survival, without_two_of_three_masters_the_view_stands_still_and_pages_are_served) {
  start_ring({.count = 5});
  if (HasFatalFailure())
    return;
  const auto before = wait_for_view(3);
  ASSERT_TRUE(before);
  auto writer = client_of(3);
  auto reader = client_of(4);
  put(*writer, 0, pages);
  constexpr std::uint32_t lost = 5000;
  put(*client_of(0), lost, pages);
  ASSERT_EQ(before->masters, (std::vector<std::string>{"node-1", "node-2", "node-3"}));
  kill(0);
  kill(1);
  // The view says for as long as it stands that node-1 has these; they can be put again all the
  // same.
  auto put_again = [&](std::uint32_t id) {
    put_one(*writer, id, 1);
    return get(*reader, id, milliseconds(1000)).result.status == page_status::hit;
  };
  EXPECT_TRUE(within(long_enough, [&] {
    std::uint32_t hits = 0;
    for (auto id = lost; id < lost + pages; ++id)
      hits += put_again(id) ? 1 : 0;
    return hits >= pages * 3 / 4;
  }));
  // One key of ten has both of its shards among the dead: those are misses until they are back.
  auto expect_service = [&](std::uint32_t first) {
    std::uint32_t hits = 0;
    for (auto id = first; id < first + pages; ++id) {
      put_one(*writer, id, 0);
      auto read = get(*reader, id - first, milliseconds(1000));
      EXPECT_TRUE(read.result.status != page_status::hit || read.check.wrong_bytes == 0);
      hits += read.result.status == page_status::hit ? 1 : 0;
    }
    EXPECT_GE(hits, pages * 3 / 4);
    EXPECT_TRUE(within(long_enough,
                       [&] { return count_existing(*reader, first, pages) >= pages * 3 / 4; }));
  };
  expect_service(1000);
  EXPECT_FALSE(within(milliseconds(2000), [&] { return has_other_view(3, before); }))
      << "two expiries later one master has still no majority";
  expect_service(2000);
  EXPECT_EQ(wait_for_view(3), before);
  spawn_again(0); // Neither can be ready before both are back.
  spawn_again(1);
  EXPECT_TRUE(within(long_enough, [this] { return one_view({0, 1, 2, 3, 4}); }));
  EXPECT_TRUE(within(long_enough, [&] { return all_readable(*client_of(0), 0, pages); }));
}

TEST_F(survival, a_master_that_is_told_to_stop_leaves_a_majority_behind) {
  start_ring({.count = 5});
  if (HasFatalFailure())
    return;
  const auto before = wait_for_view(0);
  ASSERT_TRUE(before);
  ASSERT_EQ(before->masters, (std::vector<std::string>{"node-1", "node-2", "node-3"}));
  freeze(1); // The third master alone cannot say that the first one left.
  EXPECT_EQ(node(0).stop(long_enough), 0);
  kill(1);
  EXPECT_TRUE(within_own_time(soon, [&] { return one_view({2, 3, 4}); }));
  EXPECT_TRUE(exchange(2, 4, 0));
}

TEST_F(survival, five_nodes_that_join_at_once_are_all_in_within_seconds) {
  start_ring({.count = 1});
  if (HasFatalFailure())
    return;
  for (std::size_t i = 1; i <= 5; ++i) {
    auto launch = launch_of(i);
    launch.seeds = {address(0)};
    spawn_node(launch);
  }
  ASSERT_TRUE(within(long_enough, [&] { return sees(0, 6); }));
  auto reader = client_of(0);
  const auto view = wait_for_view(0);
  ASSERT_TRUE(view);
  std::uint32_t id = 0;
  for (const auto& newcomer : view->members) {
    auto writer = client_at(newcomer.host, newcomer.control_port);
    ASSERT_NE(writer, nullptr);
    ++id;
    EXPECT_TRUE(
        within(long_enough, [&] { return put_one(*writer, id, 0) == page_status::stored; }));
    EXPECT_TRUE(writer->flush());
    // A reader that missed a view does not ask its owners: a miss, until the page is told to the
    // next.
    EXPECT_TRUE(within(long_enough, [&] {
      return get(*reader, id).result.status == page_status::hit;
    })) << newcomer.name;
  }
}

TEST_F(survival, a_killed_shard_owner_hides_no_key_of_the_others_even_before_the_new_view) {
  // Its death is noticed late, so that the old view is in force all the time.
  start_ring({.count = 3, .heartbeat = milliseconds(1000), .expiry = milliseconds(20'000)});
  if (HasFatalFailure())
    return;
  auto writer = client_of(0);
  auto reader = client_of(1);
  put(*writer, 0, 4 * pages);
  const auto before = wait_for_view(1);
  kill(2);
  for (std::uint32_t id = 0; id < 4 * pages; ++id) {
    auto read = get(*reader, id, milliseconds(1000));
    ASSERT_EQ(to_string(read.result.status), to_string(page_status::hit)) << "page " << id;
    EXPECT_TRUE(took_at_most(milliseconds(1050), read));
  }
  EXPECT_EQ(count_existing(*client_of(0), 0, 4 * pages), 4 * pages);
  const auto after = wait_for_view(1);
  ASSERT_TRUE(before && after);
  EXPECT_EQ(before->members.size(), 3u);
  EXPECT_EQ(*before, *after) << "this test has to be done before the new view";
}

} // namespace peercache::real::survival_test
