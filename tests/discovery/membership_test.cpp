#include "discovery/membership.hpp"

#include "tests/support/membership_net.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace peercache::discovery::membership_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using tests::converged_net;
using tests::membership_net;
using tests::node_name;
using tests::started_net;

constexpr auto heartbeat = milliseconds(500);
constexpr auto expiry = seconds(2);
/// How much later than a deadline something may happen: ticks are 50 ms apart, and packets take up
/// to 5 ms, a few of them in a row.
constexpr auto slack = milliseconds(150);

TEST(membership, a_node_without_seeds_is_a_cluster_at_its_first_tick) {
  membership_net net(1);
  net.start("alone", 1, {});
  net.run_for(milliseconds(51));
  EXPECT_TRUE(net.converged());
  EXPECT_EQ(net.view_of(0).term, 1u);
  EXPECT_EQ(net.view_of(0).version, 1u);
  EXPECT_TRUE(net.machine(0).leads());
}

TEST(membership, three_nodes_converge_on_one_view_within_three_heartbeats) {
  auto net = started_net(3);
  auto took = net.run_until([&] { return net.converged(); }, seconds(10));
  ASSERT_TRUE(took);
  // The head listens for two heartbeats before it founds; the other nodes' joins come at most one
  // heartbeat later.
  EXPECT_LE(*took, 3 * heartbeat + slack);
  EXPECT_EQ(net.view_of(2).masters,
            (std::vector<std::string>{node_name(1), node_name(2), node_name(3)}));
  EXPECT_TRUE(net.machine(0).leads());
  EXPECT_FALSE(net.machine(1).leads());
}

TEST(membership, masters_are_the_head_and_the_first_ones_by_id) {
  membership_net net(1);
  net.start("zebra", 1, {membership_net::address(1)});
  std::vector<std::string> names;
  for (std::size_t number = 1; number <= 6; ++number) {
    names.push_back("host" + std::to_string(number));
    net.start(names.back(), number + 1, {membership_net::address(1)});
  }
  std::sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
    return node_id_of(a) < node_id_of(b);
  });
  ASSERT_NE(names[1], "host2") << "another order than the natural one";
  ASSERT_TRUE(net.run_until([&] { return net.converged(); }, seconds(5)));
  EXPECT_EQ(net.view_of(3).masters, (std::vector<std::string>{"zebra", names[0], names[1]}));
}

/// Hosts with consecutive names share a rack, ten in each. Two masters may be in one rack only by
/// chance, not as a rule.
TEST(membership, masters_are_spread_whatever_the_order_of_names) {
  int together = 0;
  constexpr int clusters = 200;
  for (int cluster = 0; cluster < clusters; ++cluster) {
    std::vector<member> members;
    for (int host = 0; host < 100; ++host) {
      member m;
      m.name = "cluster" + std::to_string(cluster) + "-gpu" + std::to_string(host);
      m.id = node_id_of(m.name);
      // The field `host` holds the number of the host's rack here.
      m.host = std::to_string(host / 10);
      members.push_back(m);
    }
    const auto masters = choose_masters(members, {}, 3);
    std::set<std::string> racks;
    for (const auto& m : members)
      if (std::count(masters.begin(), masters.end(), m.name) > 0)
        racks.insert(m.host);
    together += racks.size() < 3 ? 1 : 0;
  }
  EXPECT_LT(together, clusters / 2) << "of ten racks: 28 of 100 by chance, all in natural order";
}

TEST(membership, a_stable_cluster_changes_no_view) {
  auto net = converged_net(5);
  auto before = net.view_of(4);
  net.run_for(seconds(60));
  EXPECT_EQ(net.view_of(4), before);
}

TEST(membership, a_killed_member_leaves_the_view_within_expiry_and_one_heartbeat) {
  auto net = converged_net(4);
  net.kill(3);
  auto took = net.run_until([&] { return net.converged(); }, seconds(10));
  ASSERT_TRUE(took);
  EXPECT_LE(*took, expiry + heartbeat);
  EXPECT_EQ(net.view_of(0).members.size(), 3u);
}

TEST(membership, a_broken_connection_speeds_up_the_expiry) {
  auto net = converged_net(4);
  net.kill(3, true);
  auto took = net.run_until([&] { return net.converged(); }, seconds(10));
  ASSERT_TRUE(took);
  EXPECT_LE(*took, 2 * heartbeat + slack);
}

TEST(membership, a_member_that_reconnects_is_not_expelled) {
  auto net = converged_net(4);
  auto before = net.view_of(0);
  net.machine(0).on_peer_lost(net.at(3).self.inc, net.now());
  net.run_for(seconds(10));
  EXPECT_EQ(net.view_of(0), before);
}

TEST(membership, a_head_that_is_refused_does_not_found_a_cluster) {
  membership_net net(1);
  std::vector<endpoint> seeds{membership_net::address(1), membership_net::address(2)};
  for (std::size_t i = 1; i <= 3; ++i)
    net.start(node_name(i), i, seeds);
  ASSERT_TRUE(net.run_until([&] { return net.converged(); }, seconds(5)));
  net.kill(0);
  // A process starts on the machine of the dead head under the name of a member that lives on
  // another host.
  auto wrong = net.start(node_name(3), 1, seeds);
  net.run_for(seconds(30));
  EXPECT_EQ(net.view_of(wrong).term, 0u);
  EXPECT_FALSE(net.at(wrong).refusals.empty());
  EXPECT_NE(net.view_of(1).find(net.at(2).self.inc), nullptr);
}

TEST(membership, a_restart_under_the_same_name_replaces_the_incarnation_at_once) {
  auto net = converged_net(4);
  auto old = net.at(3).self.inc;
  net.kill(3);
  net.restart(3);
  auto took = net.run_until([&] { return net.converged(); }, seconds(10));
  ASSERT_TRUE(took);
  EXPECT_LE(*took, slack);
  EXPECT_EQ(net.view_of(0).find(old), nullptr);
  EXPECT_EQ(net.view_of(0).members.size(), 4u);
}

TEST(membership, a_leaving_member_is_out_of_the_view_at_once) {
  auto net = converged_net(4);
  net.leave(3);
  auto took = net.run_until([&] { return net.view_of(0).members.size() == 3; }, seconds(5));
  ASSERT_TRUE(took);
  EXPECT_LE(*took, slack);
}

TEST(membership, a_leaving_leader_hands_over_at_once) {
  auto net = converged_net(4);
  net.leave(0);
  auto took = net.run_until([&] { return net.machine(1).leads() && net.converged(); }, seconds(5));
  ASSERT_TRUE(took);
  EXPECT_LE(*took, slack);
}

TEST(membership, a_second_node_of_the_same_name_is_refused_while_the_first_lives) {
  auto net = converged_net(3);
  auto first = net.at(2).self.inc;
  auto second = net.start(node_name(3), 9, {membership_net::address(1)});
  net.run_for(seconds(20));
  EXPECT_NE(net.view_of(0).find(first), nullptr);
  EXPECT_EQ(net.machine(second).state(), membership::phase::looking);
  ASSERT_EQ(net.at(second).refusals.size(), 1u) << "the same reason is told once";
  EXPECT_NE(net.at(second).refusals[0].find(node_name(3)), std::string::npos);
  net.kill(2);
  EXPECT_TRUE(net.run_until([&] { return net.converged(); }, seconds(5)));
}

TEST(membership, a_replaced_process_does_not_throw_its_successor_out) {
  auto net = converged_net(3);
  auto old_process = net.at(2).self.inc;
  // The successor runs on the host of the old process, which is only frozen and keeps its port.
  net.freeze(2);
  auto successor = net.start(node_name(3), 3, {membership_net::address(1)}, 31990);
  ASSERT_TRUE(net.run_until([&] { return net.converged(); }, seconds(5)));
  net.thaw(2);
  net.run_for(seconds(20));
  EXPECT_NE(net.view_of(0).find(net.at(successor).self.inc), nullptr);
  EXPECT_EQ(net.view_of(0).find(old_process), nullptr);
  EXPECT_FALSE(net.at(2).refusals.empty());
}

TEST(membership, a_full_cluster_of_masters_forwards_joins_to_its_leader) {
  auto net = converged_net(3);
  // The new node has one seed only, which is not the leader.
  net.start(node_name(4), 4, {membership_net::address(3)});
  auto took = net.run_until([&] { return net.converged(); }, seconds(5));
  ASSERT_TRUE(took);
  EXPECT_LE(*took, slack);
}

TEST(membership, one_seed_that_answers_is_enough) {
  auto net = converged_net(3);
  net.start(node_name(4), 4,
            {membership_net::address(77), membership_net::address(88), membership_net::address(2)});
  EXPECT_TRUE(net.run_until([&] { return net.converged(); }, seconds(2)));
}

TEST(membership, nodes_join_through_another_seed_while_the_head_is_dead) {
  membership_net net(1);
  std::vector<endpoint> seeds{membership_net::address(1), membership_net::address(2)};
  for (std::size_t i = 1; i <= 3; ++i)
    net.start(node_name(i), i, seeds);
  ASSERT_TRUE(net.run_until([&] { return net.converged(); }, seconds(5)));
  net.kill(0);
  net.run_for(seconds(5));
  net.start(node_name(4), 4, seeds);
  ASSERT_TRUE(net.run_until([&] { return net.converged(); }, seconds(2)));
  net.restart(0);
  ASSERT_TRUE(net.run_until([&] { return net.converged(); }, seconds(5)));
  EXPECT_TRUE(net.machine(0).leads());
}

TEST(membership, a_head_that_learns_its_own_seeds_address_founds_an_expiry_later) {
  membership_net net(1);
  const endpoint named{"head.example", 31998};
  net.start("head", 1, {named, membership_net::address(2)});
  net.start("other", 2, {named, membership_net::address(2)});
  net.run_for(5 * expiry);
  EXPECT_FALSE(net.converged()) << "nobody is known as the head";
  for (const std::size_t node : {0, 1})
    net.machine(node).correct_seed(named, membership_net::address(1), true, net.now());
  net.run_for(expiry - slack);
  EXPECT_FALSE(net.converged()) << "the seed is to be asked first";
  EXPECT_TRUE(net.run_until([&] { return net.converged(); }, heartbeat + 3 * slack));
  EXPECT_TRUE(net.machine(0).leads());
}

TEST(membership, a_head_founds_nothing_before_its_patience_is_over_or_all_seeds_are_known) {
  const endpoint named{"other.example", 31998}, later{"later.example", 31998};
  member self;
  self.name = "head";
  self.id = node_id_of(self.name);
  self.inc = {1, 1};
  self.host = "10.0.0.1";
  self.control_port = 31998;
  membership_options options;
  options.seeds = {control_endpoint(self), named, later};
  options.patience = 5 * expiry;
  const time_point begin{};
  // Returns when the head founds a cluster, if it learns the addresses of its seeds' names after
  // these numbers of expiries.
  const auto founds_after = [&](int named_at, int later_at) {
    membership machine(options, self, begin);
    auto now = begin;
    for (; !machine.leads() && now < begin + 9 * expiry; now += milliseconds(50)) {
      if (now == begin + named_at * expiry)
        machine.correct_seed(named, {"10.0.0.2", 31998}, later_at < named_at, now);
      if (now == begin + later_at * expiry)
        machine.correct_seed(later, {"10.0.0.3", 31998}, named_at < later_at, now);
      machine.tick(now);
    }
    return (now - milliseconds(50) - begin) / expiry;
  };
  constexpr int never = 99;
  EXPECT_EQ(founds_after(never, never), 6) << "an expiry, and the patience";
  EXPECT_EQ(founds_after(1, never), 6) << "another name is still missing";
  EXPECT_EQ(founds_after(1, 2), 3) << "each seed had an expiry to answer";
  EXPECT_EQ(founds_after(never, 6), 7) << "and so has one that is known at the last moment";
}

TEST(membership, five_nodes_join_at_once) {
  auto net = converged_net(3);
  for (std::size_t i = 4; i <= 8; ++i)
    net.start(node_name(i), i, {membership_net::address(1)});
  auto took = net.run_until([&] { return net.converged(); }, seconds(5));
  ASSERT_TRUE(took);
  EXPECT_LE(*took, heartbeat);
}

TEST(membership, a_node_sends_its_second_heartbeat_within_one_of_its_start) {
  for (auto late = milliseconds(0); late < heartbeat; late += milliseconds(40)) {
    membership_net net(1);
    net.run_for(late);
    net.start("alone", 1, {});
    net.run_for(milliseconds(51));
    ASSERT_TRUE(net.converged());
    const auto more = net.machine(0).next_tick(net.now()) - net.now();
    EXPECT_LE(more, heartbeat) << late.count();
  }
}

TEST(membership, a_vote_that_is_not_answered_is_asked_for_again_four_times_a_heartbeat) {
  auto net = converged_net(3);
  net.run_for(2 * expiry);
  std::size_t leader = 0;
  while (!net.machine(leader).leads())
    ++leader;
  const auto voter = (leader + 1) % 3, gone = (leader + 2) % 3;
  std::size_t asked = 0;
  net.watch = [&](std::size_t from, const send_packet& sent) {
    if (from == leader && std::holds_alternative<propose_packet>(sent.body))
      ++asked;
  };
  net.kill(gone);
  ASSERT_TRUE(net.run_until([&] { return asked > 0; }, 2 * expiry));
  net.freeze(voter);
  net.run_for(heartbeat + slack / 5);
  EXPECT_GE(asked, 10u) << "five times, of two masters each";
}

TEST(membership, a_tick_is_due_with_each_heartbeat_and_more_often_while_one_is_missed) {
  auto net = converged_net(3);
  const auto ticks_in_ten_heartbeats = [&](std::size_t i) {
    const auto before = net.at(i).ticks;
    net.run_for(10 * heartbeat);
    return net.at(i).ticks - before;
  };
  net.run_for(2 * expiry);
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_LE(ticks_in_ten_heartbeats(i), 10u) << i;
  net.kill(2);
  const auto took = net.run_until([&] { return net.view_of(0).members.size() == 2; }, seconds(5));
  ASSERT_TRUE(took);
  EXPECT_LE(*took, expiry + heartbeat / 4 + slack);
  net.run_for(2 * expiry);
  EXPECT_LE(ticks_in_ten_heartbeats(0), 10u) << "the member is forgotten";
}

} // namespace
} // namespace peercache::discovery::membership_test
