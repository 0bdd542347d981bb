#include "discovery/view_changes.hpp"
#include "tests/support/membership_net.hpp"

#include <gtest/gtest.h>

// Tests of which former members views list as gone, and why.
namespace peercache::discovery::membership_gone_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using tests::converged_net;
using tests::membership_net;
using tests::node_name;

/// Whether every running node has a view in which the node called `name` is gone for this reason.
bool all_say(const membership_net& net, const std::string& name, departure why) {
  for (std::size_t i = 0; i < net.size(); ++i) {
    if (!net.is_running(i) || net.at(i).frozen)
      continue;
    const auto* lost = net.view_of(i).find_gone(name);
    if (lost == nullptr || lost->why != why)
      return false;
  }
  return true;
}

/// Whether no running node has a view in which anybody is gone.
bool nobody_is_gone(const membership_net& net) {
  for (std::size_t i = 0; i < net.size(); ++i)
    if (net.is_running(i) && !net.view_of(i).gone.empty())
      return false;
  return true;
}

TEST(membership_gone, a_killed_member_stays_gone_on_all_nodes_until_it_is_back) {
  auto net = converged_net(5);
  const auto killed_at = net.now();
  net.kill(4, true);
  ASSERT_TRUE(net.run_until([&] { return net.converged(); }, seconds(5)));
  ASSERT_TRUE(all_say(net, node_name(5), departure::connection_broke));
  const auto& lost = net.view_of(0).gone.front();
  EXPECT_EQ(lost.host, membership_net::address(5).host);
  EXPECT_EQ(lost.control_port, membership_net::address(5).port);
  EXPECT_GE(milliseconds(lost.since_ms), killed_at - membership_net(1).now());
  net.run_for(seconds(30));
  EXPECT_TRUE(all_say(net, node_name(5), departure::connection_broke)) << "nothing has mended it";
  net.restart(4);
  ASSERT_TRUE(net.run_until([&] { return net.converged(); }, seconds(5)));
  EXPECT_TRUE(nobody_is_gone(net));
}

TEST(membership_gone, a_frozen_member_fell_silent_and_the_dead_add_up) {
  auto net = converged_net(5);
  net.freeze(4);
  ASSERT_TRUE(net.run_until([&] { return net.converged(); }, seconds(5)));
  EXPECT_TRUE(all_say(net, node_name(5), departure::silent));
  net.kill(3, true);
  ASSERT_TRUE(net.run_until([&] { return net.converged(); }, seconds(5)));
  EXPECT_TRUE(all_say(net, node_name(5), departure::silent));
  EXPECT_TRUE(all_say(net, node_name(4), departure::connection_broke));
  net.thaw(4);
  ASSERT_TRUE(net.run_until([&] { return net.converged(); }, seconds(5)));
  EXPECT_TRUE(all_say(net, node_name(4), departure::connection_broke)) << "only the other is back";
  EXPECT_EQ(net.view_of(0).gone.size(), 1u);
}

TEST(membership_gone, a_cluster_of_one_that_is_left_remembers_the_two_others) {
  auto net = converged_net(3);
  net.kill(0, true);
  ASSERT_TRUE(net.run_until([&] { return net.converged(); }, seconds(5)));
  net.kill(1, true);
  ASSERT_TRUE(net.run_until([&] { return net.converged(); }, seconds(15)));
  EXPECT_TRUE(all_say(net, node_name(1), departure::connection_broke));
  EXPECT_TRUE(all_say(net, node_name(2), departure::connection_broke));
}

TEST(membership_gone, a_node_that_starts_later_learns_who_is_gone) {
  auto net = converged_net(4);
  net.kill(3, true);
  ASSERT_TRUE(net.run_until([&] { return net.converged(); }, seconds(5)));
  net.start(node_name(6), 6, {membership_net::address(1)});
  net.restart(1);
  ASSERT_TRUE(net.run_until([&] { return net.converged(); }, seconds(10)));
  EXPECT_TRUE(all_say(net, node_name(4), departure::connection_broke));
}

/// A plain member, a master and the leader leave, each in a cluster of its own.
TEST(membership_gone, who_stops_in_order_is_not_gone) {
  for (std::size_t i : {4, 1, 0}) {
    auto net = converged_net(5);
    net.leave(i);
    ASSERT_TRUE(net.run_until([&] { return net.machine(i).may_end(net.now()); }, seconds(5)));
    net.run_for(milliseconds(100));
    net.kill(i, true);
    ASSERT_TRUE(net.run_until([&] { return net.converged(); }, seconds(5)));
    net.run_for(seconds(5));
    EXPECT_TRUE(nobody_is_gone(net)) << i;
  }
}

TEST(membership_gone, only_the_leader_forgets_and_then_all_do) {
  auto net = converged_net(5);
  net.kill(4, true);
  net.kill(3, true);
  ASSERT_TRUE(net.run_until([&] { return net.converged(); }, seconds(5)));
  net.forget(1, node_name(5));
  net.forget(0, "nobody");
  net.run_for(seconds(1));
  EXPECT_EQ(net.view_of(0).gone.size(), 2u);
  net.forget(0, node_name(5));
  ASSERT_TRUE(net.run_until([&] { return net.converged() && net.view_of(0).gone.size() == 1; },
                            seconds(1)));
  EXPECT_TRUE(all_say(net, node_name(4), departure::connection_broke));
  net.run_for(seconds(5));
  EXPECT_EQ(net.view_of(2).gone.size(), 1u) << "it is not remembered again";
}

TEST(view_changes, a_line_says_who_came_who_went_and_why) {
  auto net = converged_net(4);
  const auto before = net.view_of(0);
  net.kill_noticed({2});
  net.leave(3);
  net.start(node_name(6), 6, {membership_net::address(1)});
  ASSERT_TRUE(net.run_until([&] { return net.converged(); }, seconds(10)));
  EXPECT_EQ(changes_between(before, net.view_of(0)),
            "came: " + node_name(6) + " (10.0.0.6:31998); gone: " + node_name(3) +
                " (10.0.0.3:31998, connection broke); stopped in order: " + node_name(4) +
                " (10.0.0.4:31998)");
  EXPECT_EQ(changes_between(before, before), "no node came or went");
  const auto with_two = net.view_of(0);
  net.restart(2);
  net.restart(1);
  ASSERT_TRUE(net.run_until([&] { return net.converged(); }, seconds(10)));
  EXPECT_EQ(changes_between(with_two, net.view_of(0)),
            "came: " + node_name(3) + " (10.0.0.3:31998); started again: " + node_name(2) +
                " (10.0.0.2:31998)");
}

TEST(view_changes, of_many_names_the_first_eight_stand_there) {
  view all;
  for (int i = 10; i < 21; ++i) {
    const auto name = "n" + std::to_string(i);
    all.members.push_back({.name = name, .id = {static_cast<std::uint64_t>(i)}, .host = "h"});
  }
  const auto line = changes_between({}, all);
  EXPECT_TRUE(line.starts_with("came: n10 (h:0), n11")) << line;
  EXPECT_TRUE(line.ends_with("n17 (h:0) and 3 more")) << line;
}

} // namespace
} // namespace peercache::discovery::membership_gone_test
