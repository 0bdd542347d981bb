// Tests that after the loss of any set of nodes at once the other nodes get one view (in a
// partition, one view on each side).

#include "discovery/membership.hpp"
#include "tests/support/membership_net.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>

namespace peercache::discovery::membership_fragment_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using tests::converged_net;
using tests::membership_net;
using tests::node_name;

constexpr auto heartbeat = milliseconds(500);
constexpr auto expiry = seconds(2);
constexpr auto in_time = seconds(15);
constexpr auto soon = 3 * heartbeat;

void heal(membership_net& net) {
  net.reachable = [](auto, auto) { return true; };
}

/// Whether the running nodes of `side` live in one view, whose members are exactly these nodes.
bool one_view_of(membership_net& net, const std::set<std::size_t>& side) {
  const view* first = nullptr;
  std::size_t running = 0;
  for (auto i : side) {
    if (!net.is_running(i))
      continue;
    ++running;
    const auto& v = net.view_of(i);
    if (net.machine(i).state() != membership::phase::joined || (first != nullptr && v != *first))
      return false;
    first = &v;
  }
  return first == nullptr || first->members.size() == running;
}

TEST(membership_fragment, without_two_of_three_masters_the_others_have_one_view_in_time) {
  auto net = converged_net(6);
  const auto before = net.view_of(5);
  net.kill(0);
  net.kill(1);
  const auto late = net.start(node_name(7), 7, {membership_net::address(3)});
  auto took = net.run_until([&] { return net.converged(); }, seconds(30));
  ASSERT_TRUE(took);
  EXPECT_LE(*took, in_time);
  const auto& after = net.view_of(5);
  EXPECT_TRUE(after.fragment());
  EXPECT_EQ(after.masters_lost(), 2u);
  EXPECT_TRUE(after.newer_than(before));
  EXPECT_EQ(after.term, before.term) << "what a majority makes later must be newer";
  // The cluster told the newcomer why it must wait, and took it in afterwards.
  ASSERT_EQ(net.at(late).refusals.size(), 1u);
  EXPECT_NE(net.at(late).refusals[0].find("too few masters"), std::string::npos);
}

TEST(membership_fragment, a_cluster_that_lost_all_masters_has_one) {
  auto net = converged_net(7);
  for (std::size_t master : {0, 1, 2})
    net.kill(master);
  const auto late = net.start(node_name(8), 8, {membership_net::address(6)});
  auto took = net.run_until([&] { return net.converged(); }, seconds(30));
  ASSERT_TRUE(took);
  EXPECT_LE(*took, in_time);
  EXPECT_EQ(net.view_of(6).masters_lost(), 3u);
  ASSERT_FALSE(net.at(late).refusals.empty());
  EXPECT_NE(net.at(late).refusals[0].find("no master of its view answers"), std::string::npos);
}

TEST(membership_fragment, a_cluster_that_lost_its_single_master_has_one) {
  membership_net net(1);
  net.max_masters = 1;
  for (std::size_t i = 1; i <= 4; ++i)
    net.start(node_name(i), i, {membership_net::address(1)});
  ASSERT_TRUE(net.run_until([&] { return net.converged(); }, seconds(5)));
  net.kill(0);
  auto took = net.run_until([&] { return net.converged(); }, seconds(30));
  ASSERT_TRUE(took);
  EXPECT_LE(*took, in_time);
}

TEST(membership_fragment, a_last_node_goes_on_alone) {
  auto net = converged_net(5);
  for (std::size_t i : {0, 1, 2, 3})
    net.kill(i);
  auto took = net.run_until([&] { return net.converged(); }, seconds(30));
  ASSERT_TRUE(took);
  EXPECT_LE(*took, in_time);
}

/// Runs 200 clusters of 3 to 40 nodes; the nodes that are left may be on two sides of a partition.
TEST(membership_fragment, any_set_of_nodes_may_go_and_each_side_of_the_others_has_one_view) {
  milliseconds slowest{0};
  std::size_t fragments = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const std::size_t count = 3 + seed % 38;
    auto net = converged_net(count, seed);
    const bool halves = net.random() % 2 == 0;
    std::set<std::size_t> sides[2];
    for (std::size_t i = 0; i < count; ++i) {
      sides[halves ? net.random() % 2 : 0].insert(i);
      if (net.random() % 2 == 0)
        net.kill(i, net.random() % 2 == 0);
    }
    net.reachable = [&](std::size_t a, std::size_t b) {
      return sides[0].count(a) == sides[0].count(b);
    };
    const auto done = [&] { return one_view_of(net, sides[0]) && one_view_of(net, sides[1]); };
    auto took = net.run_until(done, seconds(30));
    ASSERT_TRUE(took);
    EXPECT_LE(*took, in_time);
    slowest = std::max(slowest, *took);
    for (std::size_t i = 0; i < count; ++i)
      fragments += net.is_running(i) && net.view_of(i).fragment() ? 1 : 0;
    net.run_for(seconds(5));
    EXPECT_TRUE(done()) << "did not stay together";
    heal(net);
    for (std::size_t i = 0; i < count; ++i)
      if (!net.is_running(i))
        net.restart(i);
    took =
        net.run_until([&] { return net.converged() && !net.view_of(0).fragment(); }, seconds(30));
    ASSERT_TRUE(took);
    EXPECT_LE(*took, 4 * heartbeat);
  }
  EXPECT_GT(fragments, 500u) << "too little happened";
  std::printf("[ measured ] one view of the rest after %lld ms at most\n",
              static_cast<long long>(slowest.count()));
}

/// While a majority of the masters lives, no node may make a fragment. Nodes notice broken
/// connections at once in this test, so the next view need not wait for the expiry.
TEST(membership_fragment, with_a_majority_of_masters_it_takes_three_heartbeats_once_it_is_noticed) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    auto net = converged_net(20, seed);
    std::vector<std::size_t> gone{net.random() % 3};
    for (std::size_t i = 3; i < 20; ++i)
      if (net.random() % 2 == 0)
        gone.push_back(i);
    net.kill_noticed(gone);
    auto took = net.run_until([&] { return net.converged(); }, seconds(30));
    ASSERT_TRUE(took);
    EXPECT_LE(*took, soon) << "two of the three until a broken connection counts";
    for (std::size_t i = 0; i < 3; ++i)
      EXPECT_FALSE(net.is_running(i) && net.view_of(i).fragment());
  }
}

TEST(membership_fragment, the_majoritys_view_wins_and_none_of_its_nodes_was_out) {
  auto net = converged_net(7);
  net.reachable = [](std::size_t a, std::size_t b) { return (a < 2) == (b < 2); };
  net.run_for(seconds(30));
  ASSERT_TRUE(net.view_of(6).fragment());
  ASSERT_FALSE(net.view_of(0).fragment());
  bool out = false;
  net.watch = [&](std::size_t from, const send_packet& sent) {
    const auto* join = std::get_if<join_packet>(&sent.body);
    out = out || (from < 2 && join != nullptr && !join->forwarded);
  };
  heal(net);
  auto took = net.run_until([&] { return net.converged(); }, seconds(20));
  ASSERT_TRUE(took);
  EXPECT_LE(*took, soon);
  EXPECT_FALSE(out) << "two nodes with a majority of masters, five without: those join";
  EXPECT_FALSE(net.view_of(0).fragment());
}

TEST(membership_fragment, fragments_that_meet_join_by_stamp) {
  auto net = converged_net(9);
  net.reachable = [](std::size_t a, std::size_t b) { return a % 3 == b % 3; };
  net.run_for(seconds(20));
  std::set<view_stamp> stamps;
  for (std::size_t i : {0, 1, 2}) {
    EXPECT_EQ(net.view_of(i).members.size(), 3u);
    EXPECT_TRUE(net.view_of(i).fragment());
    stamps.insert(net.view_of(i).stamp());
  }
  ASSERT_EQ(stamps.size(), 3u);
  std::set<view_stamp> joined; // Stamps of the fragments whose nodes ask to join another one.
  net.watch = [&](std::size_t from, const send_packet& sent) {
    const auto* join = std::get_if<join_packet>(&sent.body);
    if (join != nullptr && !join->forwarded && stamps.contains(net.view_of(from).stamp()))
      joined.insert(net.view_of(from).stamp());
  };
  heal(net);
  auto took = net.run_until([&] { return net.converged(); }, seconds(20));
  ASSERT_TRUE(took);
  EXPECT_LE(*took, soon);
  EXPECT_FALSE(joined.empty());
  EXPECT_FALSE(joined.contains(*stamps.rbegin())) << "nobody leaves the newest fragment";
  ASSERT_TRUE(net.run_until([&] { return !net.view_of(0).fragment(); }, soon));
  EXPECT_GT(net.view_of(0).term, stamps.rbegin()->term);
}

TEST(membership_fragment, it_is_whole_again_once_a_majority_of_the_lost_masters_is_back) {
  auto net = converged_net(7);
  for (std::size_t master : {0, 1, 2})
    net.kill(master);
  ASSERT_TRUE(net.run_until([&] { return net.converged(); }, in_time));
  net.restart(2);
  ASSERT_TRUE(net.run_until([&] { return net.converged(); }, seconds(5)));
  EXPECT_EQ(net.view_of(6).masters_lost(), 2u);
  net.restart(1);
  const auto is_whole = [&] { return net.converged() && !net.view_of(6).fragment(); };
  ASSERT_TRUE(net.run_until(is_whole, seconds(5)));
  EXPECT_EQ(net.view_of(6).masters_lost(), 0u);
}

TEST(membership_fragment, an_operator_may_start_the_lost_names_on_other_hosts) {
  auto net = converged_net(6);
  net.kill(0);
  net.kill(1);
  ASSERT_TRUE(net.run_until([&] { return net.converged(); }, in_time));
  net.start(node_name(1), 11, {membership_net::address(3)});
  net.start(node_name(2), 12, {membership_net::address(3)});
  const auto is_whole = [&] { return net.converged() && !net.view_of(5).fragment(); };
  EXPECT_TRUE(net.run_until(is_whole, seconds(5)));
}

TEST(membership_fragment, lost_masters_that_thaw_join_the_fragment_and_make_it_whole) {
  auto net = converged_net(6);
  const auto inc = net.at(1).self.inc;
  net.freeze(0);
  net.freeze(1);
  ASSERT_TRUE(net.run_until([&] { return net.converged(); }, in_time));
  ASSERT_TRUE(net.view_of(5).fragment());
  net.thaw(0);
  net.thaw(1);
  const auto is_whole = [&] { return net.converged() && !net.view_of(5).fragment(); };
  auto took = net.run_until(is_whole, seconds(5));
  ASSERT_TRUE(took);
  EXPECT_LE(*took, soon);
  EXPECT_NE(net.view_of(5).find(inc), nullptr);
}

TEST(membership_fragment, a_fragment_that_loses_most_of_its_masters_makes_another_one) {
  auto net = converged_net(9);
  for (std::size_t i : {0, 1, 2})
    net.kill(i);
  ASSERT_TRUE(net.run_until([&] { return net.converged(); }, in_time));
  const auto first = net.view_of(8);
  for (std::size_t i : {3, 4, 5})
    net.kill(i);
  auto took = net.run_until([&] { return net.converged(); }, seconds(30));
  ASSERT_TRUE(took);
  EXPECT_LE(*took, in_time);
  EXPECT_EQ(net.view_of(8).former_masters, first.former_masters) << "of the last whole view";
  for (std::size_t i : {0, 1, 2, 3, 4, 5})
    net.restart(i);
  ASSERT_TRUE(net.run_until([&] { return net.converged() && !net.view_of(8).fragment(); }, soon));
}

/// A deaf node receives nothing while all others hear it: the views that it makes for itself must
/// not reach them.
TEST(membership_fragment, a_deaf_node_takes_nobody_out_of_the_view_of_a_majority) {
  for (std::size_t deaf : {3, 5}) {
    auto net = converged_net(6);
    net.reachable = [deaf](std::size_t, std::size_t to) { return to != deaf; };
    bool out = false;
    net.watch = [&](std::size_t from, const send_packet& sent) {
      const auto* join = std::get_if<join_packet>(&sent.body);
      out = out || (from != deaf && join != nullptr && !join->forwarded);
    };
    net.run_for(seconds(30));
    EXPECT_TRUE(net.view_of(deaf).fragment());
    EXPECT_FALSE(net.view_of(0).fragment());
    heal(net);
    auto took = net.run_until([&] { return net.converged(); }, seconds(20));
    ASSERT_TRUE(took);
    EXPECT_LE(*took, soon);
    EXPECT_FALSE(out);
    EXPECT_FALSE(net.view_of(0).fragment());
  }
}

/// A leader proposes a view and hears no more answers, so it makes a fragment, while the others
/// finish the proposed view.
TEST(membership_fragment, what_a_deaf_leader_proposed_is_another_view_than_the_one_it_makes_then) {
  auto net = converged_net(9);
  for (std::size_t i : {0, 1, 2})
    net.kill(i);
  ASSERT_TRUE(net.run_until([&] { return net.converged() && net.view_of(3).fragment(); }, in_time));
  ASSERT_TRUE(net.machine(3).leads());
  bool proposed = false;
  net.watch = [&](std::size_t from, const send_packet& sent) {
    proposed = proposed || (from == 3 && std::holds_alternative<propose_packet>(sent.body));
  };
  net.reachable = [&](std::size_t, std::size_t to) { return !proposed || to != 3; };
  net.kill(8);
  net.run_for(in_time);
  ASSERT_TRUE(proposed);
  std::map<view_stamp, view> by_stamp;
  for (std::size_t i = 3; i < 8; ++i)
    for (const auto& adopted : net.at(i).adopted)
      EXPECT_EQ(by_stamp.emplace(adopted.stamp(), adopted).first->second, adopted)
          << "two views of version " << adopted.version;
  EXPECT_EQ(net.view_of(3).members.size(), 1u);
  EXPECT_EQ(net.view_of(4).members.size(), 4u);
  heal(net);
  EXPECT_TRUE(net.run_until([&] { return net.converged(); }, seconds(5)));
}

/// A node and the masters do not hear each other. The node must make no fragment, because the other
/// members tell it that they hear enough masters.
TEST(membership_fragment, a_node_that_only_the_masters_do_not_hear_makes_none) {
  auto net = converged_net(6);
  const auto before = net.view_of(5).members.size();
  net.reachable = [](std::size_t from, std::size_t to) {
    return from != 5 && to != 5 ? true : from > 2 && to > 2;
  };
  net.run_for(seconds(60));
  for (const auto& v : net.at(5).adopted)
    EXPECT_FALSE(v.fragment());
  heal(net);
  ASSERT_TRUE(net.run_until([&] { return net.converged(); }, soon));
  EXPECT_EQ(net.view_of(5).members.size(), before);
}

/// A restarted head node hears of a cluster of which nobody is left to take it in. After a while it
/// must go on, with the nodes that it finds, in a fragment.
TEST(membership_fragment, a_restarted_head_whose_cluster_is_gone_goes_on_as_a_fragment) {
  auto net = converged_net(5);
  const auto base = net.view_of(0);
  net.restart(0);
  for (std::size_t i : {1, 2, 3, 4})
    net.kill(i);
  net.machine(0).on_packet(view_packet{base}, net.now());
  auto took = net.run_until([&] { return net.converged(); }, seconds(30));
  ASSERT_TRUE(took);
  EXPECT_LE(*took, in_time);
  EXPECT_TRUE(net.view_of(0).fragment());
  for (std::size_t i : {1, 2, 3, 4})
    net.restart(i);
  ASSERT_TRUE(net.run_until([&] { return net.converged() && !net.view_of(0).fragment(); }, soon));
}

TEST(membership_fragment, who_asks_seeds_that_are_dead_says_so_once) {
  membership_net net(1);
  net.start(node_name(2), 2, {membership_net::address(1)});
  net.run_for(3 * expiry);
  ASSERT_EQ(net.at(0).complaints.size(), 1u);
  EXPECT_NE(net.at(0).complaints[0].find("10.0.0.1:31998"), std::string::npos);
  net.run_for(seconds(60));
  EXPECT_EQ(net.at(0).complaints.size(), 1u);
}

} // namespace
} // namespace peercache::discovery::membership_fragment_test
