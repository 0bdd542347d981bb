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
  // The other nodes go on at once, whatever they believe of the frozen head.
  auto writer = client_of(1);
  auto reader = client_of(2);
  put(*writer, 0, pages);
  EXPECT_EQ(count_existing(*reader, 0, pages), pages);
  EXPECT_TRUE(noticed.get());
  const auto without_head = wait_for_view(2);
  ASSERT_TRUE(without_head);
  EXPECT_EQ(without_head->masters.size(), 2u);
  EXPECT_NE(without_head->masters.front(), "node-1");
  EXPECT_TRUE(exchange(2, 1, 1000));
  thaw(0);
  EXPECT_TRUE(within(long_enough, [&] { return one_view({0, 1, 2}); }));
  // The node that was frozen owns a part of the keys again, and learns of their pages soon.
  EXPECT_TRUE(within(long_enough, [&] { return all_readable(*client_of(0), 0, pages); }));
}

TEST_F(survival, nodes_join_through_another_seed_while_the_head_is_dead) {
  start_ring({.count = 3});
  if (HasFatalFailure())
    return;
  auto writer = client_of(1);
  put(*writer, 0, pages);
  kill(0);
  start_node(all_addresses()); // The first seed of this node is dead.
  start_node({address(2)});
  ASSERT_FALSE(HasFatalFailure());
  EXPECT_TRUE(within(long_enough, [&] { return one_view({1, 2, 3, 4}); }));
  // The new nodes own a part of the keys, and learn of their pages soon.
  EXPECT_TRUE(within(long_enough, [&] { return all_readable(*client_of(3), 0, pages); }));
  EXPECT_TRUE(exchange(3, 4, 1000));
  const auto again = restart(0);
  ASSERT_TRUE(again) << again.error().message;
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
  kill(1); // Kills the leader; its next process does not know the other nodes.
  ASSERT_TRUE(within(long_enough, [&] { return one_view({2, 3}); }));
  spawn_again(1, {seed});
  EXPECT_TRUE(within(long_enough, [&] { return one_view({1, 2, 3}); }));
  spawn_again(4, {seed});
  EXPECT_TRUE(within(long_enough, [&] { return one_view({1, 2, 3, 4}); }));
  EXPECT_TRUE(exchange(4, 1, 1000));
}

/// Tests that lose the view's first masters at once, as when a rack fails. The pages of the other
/// nodes must still be found, and new pages stored. These nodes must get one view, and all nodes
/// one when the lost nodes are back.
class lost_masters : public survival_ring {
protected:
  void lose(std::size_t count) {
    start_ring({.count = 6, .heartbeat = milliseconds(500), .expiry = milliseconds(2000)});
    if (HasFatalFailure())
      return;
    const auto before = wait_for_view(0);
    ASSERT_TRUE(before);
    ASSERT_EQ(before->masters.size(), 3u);
    const auto end = before->masters.begin() + static_cast<std::ptrdiff_t>(count);
    for (std::size_t i = 0; i < 6; ++i)
      (std::find(before->masters.begin(), end, node(i).launch().name) != end ? gone : rest)
          .push_back(i);
    put(*client_of(rest[1]), 0, pages);
    for (auto i : gone)
      kill(i);
    EXPECT_TRUE(within_own_time(long_enough, [this] { return one_view(rest); }));
    ASSERT_TRUE(within(long_enough, [this] { return one_view(rest); }));
    const auto after = wait_for_view(rest[0]);
    ASSERT_TRUE(after);
    EXPECT_EQ(after->masters_lost(), count);
    put(*client_of(rest[0]), 1000, pages);
    auto reader = client_of(rest[2]);
    for (std::uint32_t first : {0, 1000})
      EXPECT_TRUE(within(long_enough, [&] { return all_readable(*reader, first, pages); }));
  }

  void expect_status_of_fragment() {
    const auto status = run_cli({"status", "-o", "json", "--cluster",
                                 node(rest[0]).launch().cluster, "--node", address(rest[0])});
    EXPECT_EQ(status.exit_code, 3);
    EXPECT_TRUE(status.json()["fragment"].get<bool>());
    EXPECT_EQ(status.json()["masters_lost"], gone.size());
    EXPECT_NE(status.json()["faults"].dump().find("start them again"), std::string::npos);
  }

  void bring_back() {
    // A node is not ready before it is a member, so its start is not waited for.
    for (auto i : gone)
      spawn_again(i);
    EXPECT_TRUE(within(long_enough, [this] {
      const auto view = view_of(0);
      return one_view({0, 1, 2, 3, 4, 5}) && view && !view->fragment();
    }));
    EXPECT_TRUE(within(long_enough, [this] { return all_readable(*client_of(0), 0, pages); }));
  }

  std::vector<std::size_t> gone;
  std::vector<std::size_t> rest;
};

TEST_F(lost_masters, two_of_three_are_gone_on_without) {
  lose(2);
  if (HasFatalFailure())
    return;
  expect_status_of_fragment();
  bring_back();
}

TEST_F(lost_masters, all_of_them_are_gone_on_without) {
  lose(3);
  if (HasFatalFailure())
    return;
  expect_status_of_fragment();
  bring_back();
}

TEST_F(survival, a_master_that_is_told_to_stop_leaves_a_majority_behind) {
  start_ring({.count = 5});
  if (HasFatalFailure())
    return;
  const auto before = wait_for_view(0);
  ASSERT_TRUE(before);
  ASSERT_EQ(before->masters.size(), 3u);
  ASSERT_EQ(before->masters.front(), "node-1");
  std::size_t second = 1;
  while (node(second).launch().name != before->masters[1])
    ++second;
  std::vector<std::size_t> rest{1, 2, 3, 4};
  std::erase(rest, second);
  // While the second master is frozen, the third master alone cannot decide the view without the
  // first master, which leaves.
  freeze(second);
  EXPECT_EQ(node(0).stop(long_enough), 0);
  kill(second);
  EXPECT_TRUE(within_own_time(soon, [&] { return one_view(rest); }));
  EXPECT_TRUE(exchange(rest[0], rest[2], 0));
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
    // A reader that has not got the newest view asks the owners by an older view, so the page may
    // be a miss for a while.
    EXPECT_TRUE(within(long_enough, [&] {
      return get(*reader, id).result.status == page_status::hit;
    })) << newcomer.name;
  }
}

TEST_F(survival, a_killed_shard_owner_hides_no_key_of_the_others_even_before_the_new_view) {
  // The long expiry makes the node's death be noticed late, so that the old view is in force all
  // the time.
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
