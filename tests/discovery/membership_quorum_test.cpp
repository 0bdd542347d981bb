#include "discovery/membership.hpp"
#include "tests/support/membership_net.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>

namespace peercache::discovery::membership_quorum_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using tests::converged_net;
using tests::membership_net;
using tests::node_name;

constexpr auto heartbeat = milliseconds(500);
constexpr auto expiry = seconds(2);
constexpr auto slack = milliseconds(150);

/// Splits the net into the nodes below `at` and the others, which do not hear each other.
void split(membership_net& net, std::size_t at) {
  net.reachable = [at](std::size_t a, std::size_t b) { return (a < at) == (b < at); };
}

void heal(membership_net& net) {
  net.reachable = [](auto, auto) { return true; };
}

TEST(membership_quorum, a_minority_keeps_its_view_at_first_and_the_majority_goes_on) {
  auto net = converged_net(5);
  auto before = net.view_of(0);
  split(net, 1);
  net.run_for(expiry + heartbeat);
  EXPECT_EQ(net.view_of(0), before) << "the leader alone is no majority";
  EXPECT_TRUE(net.machine(0).frozen(net.now()));
  EXPECT_TRUE(net.machine(1).leads());
  EXPECT_EQ(net.view_of(1).members.size(), 4u);
  EXPECT_FALSE(net.machine(1).frozen(net.now()));
  heal(net);
  auto took = net.run_until([&] { return net.converged(); }, seconds(20));
  ASSERT_TRUE(took);
  EXPECT_LE(*took, 3 * heartbeat);
}

TEST(membership_quorum, three_parts_without_a_majority_that_find_back_soon_change_nothing) {
  auto net = converged_net(6);
  auto before = net.view_of(5);
  net.reachable = [](std::size_t a, std::size_t b) { return a % 3 == b % 3; };
  net.run_for(2 * expiry);
  heal(net);
  net.run_for(seconds(10));
  EXPECT_TRUE(net.converged());
  EXPECT_EQ(net.view_of(5), before) << "nobody was gone";
}

TEST(membership_quorum, a_lost_master_that_thaws_soon_brings_the_view_back) {
  auto net = converged_net(6);
  net.kill(0);
  net.freeze(1);
  net.run_for(2 * expiry);
  net.thaw(1);
  auto took = net.run_until([&] { return net.converged(); }, seconds(10));
  ASSERT_TRUE(took);
  // Node 1 was frozen for most of the time in which the leader was silent, so it must not count
  // this time as the leader's silence.
  EXPECT_LE(*took, expiry + heartbeat);
  EXPECT_TRUE(net.machine(1).leads());
  EXPECT_FALSE(net.view_of(5).fragment());
}

TEST(membership_quorum, one_restarted_master_without_memory_is_no_majority_two_are) {
  auto net = converged_net(6);
  auto before = net.view_of(5);
  net.kill(0);
  net.kill(1);
  net.restart(0);
  net.run_for(2 * expiry);
  EXPECT_EQ(net.view_of(5), before) << "the other may live on with a newer view";
  EXPECT_EQ(net.machine(0).state(), membership::phase::looking);
  net.restart(1);
  auto took = net.run_until([&] { return net.converged(); }, seconds(10));
  ASSERT_TRUE(took);
  EXPECT_LE(*took, 3 * heartbeat);
  EXPECT_GT(net.view_of(5).term, before.term);
  EXPECT_TRUE(net.machine(0).leads());
}

TEST(membership_quorum, dead_masters_are_replaced_one_after_another) {
  auto net = converged_net(8);
  for (std::size_t dead = 0; dead < 5; ++dead) {
    net.kill(dead);
    auto took = net.run_until([&] { return net.converged(); }, seconds(10));
    ASSERT_TRUE(took) << dead;
    EXPECT_LE(*took, expiry + heartbeat) << dead;
  }
  EXPECT_EQ(net.view_of(7).masters,
            (std::vector<std::string>{node_name(6), node_name(7), node_name(8)}));
}

TEST(membership_quorum, a_deaf_leader_is_replaced) {
  auto net = converged_net(5);
  net.reachable = [](std::size_t, std::size_t to) { return to != 0; };
  auto took = net.run_until([&] { return net.machine(1).leads(); }, seconds(10));
  ASSERT_TRUE(took);
  EXPECT_LE(*took, expiry + 2 * heartbeat);
  EXPECT_EQ(net.view_of(1).members.size(), 4u);
  heal(net);
  EXPECT_TRUE(net.run_until([&] { return net.converged(); }, seconds(10)));
}

TEST(membership_quorum, a_one_way_cut_between_two_masters_expels_nobody) {
  auto net = converged_net(5);
  for (auto [from, to] : {std::pair<std::size_t, std::size_t>{0, 1}, {1, 0}, {0, 2}, {2, 1}}) {
    auto before = net.view_of(4);
    net.reachable = [f = from, t = to](std::size_t a, std::size_t b) { return a != f || b != t; };
    net.run_for(seconds(20));
    EXPECT_EQ(net.view_of(4), before) << from << " to " << to;
    heal(net);
    net.run_for(seconds(5));
    EXPECT_TRUE(net.converged());
  }
}

TEST(membership_quorum, a_member_that_only_the_leader_does_not_hear_stays) {
  auto net = converged_net(5);
  auto before = net.view_of(4);
  net.reachable = [](std::size_t a, std::size_t b) { return a != 4 || b != 0; };
  net.run_for(seconds(20));
  EXPECT_EQ(net.view_of(0), before);
  // The cluster can take in another node although the leader does not hear node 4.
  net.start(node_name(6), 6, {membership_net::address(1)});
  EXPECT_TRUE(net.run_until([&] { return net.view_of(0).members.size() == 6; }, seconds(5)));
}

TEST(membership_quorum, a_whole_cluster_that_restarts_at_once_is_one_again) {
  auto net = converged_net(7);
  for (std::size_t i = 0; i < 7; ++i)
    net.restart(i);
  auto took = net.run_until([&] { return net.converged(); }, seconds(10));
  ASSERT_TRUE(took);
  EXPECT_LE(*took, 4 * heartbeat);
}

TEST(membership_quorum, five_masters_need_three) {
  membership_net net(3);
  net.max_masters = 5;
  for (std::size_t i = 1; i <= 7; ++i)
    net.start(node_name(i), i, {membership_net::address(1)});
  ASSERT_TRUE(net.run_until([&] { return net.converged(); }, seconds(5)));
  net.run_for(seconds(3));
  auto before = net.view_of(6);
  split(net, 2);
  net.run_for(2 * expiry);
  EXPECT_EQ(net.view_of(0), before);
  EXPECT_EQ(net.view_of(6).members.size(), 5u);
  EXPECT_TRUE(net.machine(2).leads());
}

/// An expelled member must learn of its expulsion before it is taken in again. When it learns of
/// it, it forgets its records; later than its return it would also forget records that were
/// published to it since.
TEST(membership_quorum, a_member_that_was_out_comes_back_only_when_it_knows) {
  auto net = converged_net(5);
  auto old = net.view_of(4);
  split(net, 4);
  ASSERT_TRUE(net.run_until([&] { return net.view_of(0).members.size() == 4; }, seconds(5)));
  auto before = net.view_of(0);
  join_packet unknowing{net.at(4).self, old.stamp(), true, false};
  auto actions = net.machine(0).on_packet(unknowing, net.now());
  ASSERT_EQ(actions.size(), 1u);
  EXPECT_EQ(std::get<send_packet>(actions[0]).body, packet{view_packet{before}});
  net.run_for(seconds(1));
  EXPECT_EQ(net.view_of(0), before);
}

TEST(membership_quorum, two_of_four_masters_restarted_are_enough_with_the_other_two) {
  membership_net net(4);
  net.max_masters = 4;
  for (std::size_t i = 1; i <= 5; ++i)
    net.start(node_name(i), i, {membership_net::address(1)});
  ASSERT_TRUE(net.run_until([&] { return net.converged(); }, seconds(5)));
  net.run_for(seconds(3));
  net.kill(0);
  net.kill(2);
  net.restart(0);
  net.restart(2);
  EXPECT_TRUE(net.run_until([&] { return net.converged(); }, seconds(5)));
}

/// Checks that the views of a cluster are a chain, one view for each term, as long as each was made
/// by three masters or more and none is a fragment.
/// @param first Term of the view that all nodes had before the faults.
void check_chain(const membership_net& net, std::uint64_t first) {
  auto last = std::numeric_limits<std::uint64_t>::max();
  std::map<std::uint64_t, view> chain;
  for (std::size_t i = 0; i < net.size(); ++i)
    for (const auto& v : net.at(i).adopted)
      if ((v.masters.size() < 3 && v.term > first) || v.fragment())
        last = std::min(last, v.term);
  for (std::size_t i = 0; i < net.size(); ++i)
    for (const auto& v : net.at(i).adopted) {
      if (v.term > last || v.term < first || v.fragment())
        continue;
      auto [known, fresh] = chain.emplace(v.term, v);
      EXPECT_EQ(known->second, v) << "term " << v.term << " was decided twice";
    }
}

/// Runs a new cluster through partitions, losses, reordering and pauses, without restarts, and then
/// ends all faults.
/// @return The term of the view that the cluster had before the faults, 0 when it had none.
std::uint64_t shake(membership_net& net, bool some_leave) {
  std::vector<endpoint> seeds{membership_net::address(1), membership_net::address(2)};
  auto count = 5 + net.random() % 5;
  for (std::size_t i = 1; i <= count; ++i)
    net.start(node_name(i), i, seeds);
  if (!net.run_until([&] { return net.converged(); }, seconds(10)))
    return 0;
  const auto first = net.view_of(0).term;
  net.net = {0.1, milliseconds(1), milliseconds(300)};
  for (int fault = 0; fault < 15; ++fault) {
    auto i = net.random() % count;
    if (some_leave && fault % 5 == 4 && !net.at(i).frozen)
      net.leave(i);
    else if (net.at(i).frozen)
      net.thaw(i);
    else if (net.random() % 3 == 0)
      net.freeze(i);
    else if (net.random() % 2 == 0)
      net.reachable = [sides = net.random()](std::size_t a, std::size_t b) {
        return ((sides >> a) & 1) == ((sides >> b) & 1);
      };
    else
      net.reachable = [cuts = net.random(), count](std::size_t a, std::size_t b) {
        return ((cuts >> ((a * count + b) % 64)) & 3) != 0;
      };
    net.run_for(milliseconds(net.random() % 4000));
  }
  heal(net);
  net.net = {};
  for (std::size_t i = 0; i < count; ++i)
    if (net.at(i).frozen)
      net.thaw(i);
  return first;
}

/// Two views that majorities of the same masters decided would have the same term; there must be
/// none.
TEST(membership_quorum, no_two_sides_ever_decide_differently_for_two_hundred_seeds) {
  std::size_t views = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    membership_net net(seed);
    const auto first = shake(net, false);
    ASSERT_GT(first, 0u);
    ASSERT_TRUE(net.run_until([&] { return net.converged(); }, seconds(30)));
    check_chain(net, first);
    views += net.view_of(0).version;
  }
  EXPECT_GT(views, 200u * 10) << "too little happened";
}

/// If two of three masters leave on one side of a partition, the other side may have no majority,
/// and the nodes may not come together again. So the test judges only the views that were decided.
TEST(membership_quorum, no_two_sides_decide_differently_while_some_leave) {
  std::size_t left = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    membership_net net(seed);
    const auto first = shake(net, true);
    ASSERT_GT(first, 0u);
    net.run_for(seconds(5));
    check_chain(net, first);
    for (std::size_t i = 0; i < net.size(); ++i)
      left += net.machine(i).state() == membership::phase::left ? 1 : 0;
  }
  EXPECT_GT(left, 200u) << "too little happened";
}

/// Two views of one term and version may follow one another where one or two masters decide alone
/// (found by the simulator, seed 8385). Masters of the first view might still decide a view that
/// was proposed after it, so the view that follows the second one must have another stamp.
TEST(membership_quorum, a_process_makes_no_two_views_of_one_stamp_after_two_bases) {
  auto net = converged_net(4);
  ASSERT_TRUE(net.machine(0).leads());
  std::set<view_stamp> proposed;
  net.watch = [&](std::size_t from, const send_packet& sent) {
    if (const auto* asks = std::get_if<propose_packet>(&sent.body); asks != nullptr && from == 0)
      proposed.insert(asks->value.stamp());
  };
  net.reachable = [&](std::size_t, std::size_t to) { return proposed.empty() || to != 0; };
  auto other = net.view_of(0);
  other.issuer = {~std::uint64_t{0}, ~std::uint64_t{0}};
  other.masters = {net.at(0).self.name, net.at(1).self.name};
  net.kill(3);
  ASSERT_TRUE(net.run_until([&] { return !proposed.empty(); }, seconds(20)));
  const auto before = net.at(0).adopted.size();
  const auto made_of = proposed;
  net.hear(0, view_packet{other});
  ASSERT_TRUE(net.run_until([&] { return net.at(0).adopted.size() >= before + 2; }, seconds(20)));
  EXPECT_EQ(net.at(0).adopted[before], other);
  EXPECT_EQ(made_of.count(net.at(0).adopted[before + 1].stamp()), 0u);
}

} // namespace
} // namespace peercache::discovery::membership_quorum_test
