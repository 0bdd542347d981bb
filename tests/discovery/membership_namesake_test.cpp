// Tests of processes that ask to join under the name of a member, on the member's host or on
// another.

#include "discovery/membership.hpp"
#include "tests/support/membership_net.hpp"

#include <gtest/gtest.h>

#include <string>

namespace peercache::discovery::membership_namesake_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using tests::converged_net;
using tests::membership_net;
using tests::node_name;

constexpr auto in_time = 3 * milliseconds(500);

/// A leader gets no heartbeats from itself. It must still count itself as alive when a process with
/// its name asks to join.
TEST(membership_namesake, a_namesake_of_the_leader_is_refused) {
  auto net = converged_net(4);
  const auto before = net.view_of(0);
  const auto late = net.start(node_name(1), 9, {membership_net::address(1)});
  net.run_for(seconds(6));
  EXPECT_EQ(net.view_of(0), before);
  EXPECT_EQ(net.machine(late).state(), membership::phase::looking);
  EXPECT_EQ(net.at(late).refusals.size(), 1u);
  const auto& told = net.at(0).turned_away;
  EXPECT_GT(told.size(), 1u) << "the leader's operator does not hear of it";
  EXPECT_EQ(told, std::vector(told.size(), membership_net::address(9).host));
}

/// Tells all nodes of `net` that the node of `host` asks to join, as the process `inc`.
void ask_all(membership_net& net, std::size_t host, const incarnation& inc) {
  join_packet asks;
  asks.who.name = node_name(host);
  asks.who.id = node_id_of(asks.who.name);
  asks.who.host = membership_net::address(host).host;
  asks.who.control_port = membership_net::address(host).port;
  asks.who.inc = inc;
  for (std::size_t i = 0; i < net.size(); ++i)
    net.machine(i).on_packet(asks, net.now());
}

TEST(membership_namesake, a_node_that_says_to_be_another_members_process_is_refused) {
  auto net = converged_net(3);
  ask_all(net, 8, net.at(1).self.inc);
  net.run_for(seconds(2));
  EXPECT_EQ(net.view_of(0).find_name(node_name(8)), nullptr);
  EXPECT_EQ(net.view_of(0).members.size(), 3u);
}

TEST(membership_namesake, of_two_applicants_that_say_to_be_one_process_one_is_taken_in) {
  auto net = converged_net(3);
  for (const std::size_t host : {8, 9})
    ask_all(net, host, {77, 77});
  EXPECT_TRUE(net.run_until([&] { return net.view_of(0).members.size() > 3; }, in_time));
  EXPECT_EQ(net.view_of(0).members.size(), 4u);
  EXPECT_NE(net.view_of(0).find(incarnation{77, 77}), nullptr);
}

TEST(membership_namesake, a_namesake_of_the_head_is_not_in_the_first_view_instead_of_it) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    membership_net net(seed);
    for (std::size_t i : {1, 2})
      net.start(node_name(i), i, {membership_net::address(1), membership_net::address(2)});
    net.start(node_name(1), 9, {membership_net::address(1)});
    net.run_for(seconds(2));
    EXPECT_EQ(net.view_of(1).find_name(node_name(1))->inc, net.at(0).self.inc) << seed;
    EXPECT_EQ(net.machine(2).state(), membership::phase::looking) << seed;
  }
}

/// In a partition the other side has a majority of the masters. On this side one master has
/// restarted, and a process with the name of another master asks to join: it must not vote in place
/// of this master, which may live.
TEST(membership_namesake, a_namesake_elsewhere_does_not_vote_in_a_masters_place) {
  auto net = converged_net(5);
  const auto base = net.view_of(0);
  net.kill(1);
  const auto namesake = net.start(node_name(3), 9, {membership_net::address(2)});
  net.restart(1);
  for (std::size_t i : {std::size_t{1}, namesake})
    net.machine(i).on_packet(view_packet{base}, net.now());
  net.reachable = [namesake](std::size_t a, std::size_t b) {
    return (a == 1 || a == namesake) == (b == 1 || b == namesake);
  };
  net.run_for(seconds(8));
  EXPECT_TRUE(net.view_of(0).newer_than(base));
  EXPECT_EQ(net.machine(1).state(), membership::phase::looking);
  EXPECT_EQ(net.machine(namesake).state(), membership::phase::looking);
}

/// A namesake of a master on another host is refused, and the master itself is still asked for its
/// vote.
TEST(membership_namesake, a_namesake_elsewhere_takes_nobodys_vote) {
  auto net = converged_net(4);
  auto lost = net.view_of(0);
  lost.term += 5;
  std::erase_if(lost.members, [](const member& m) { return m.name != node_name(4); });
  lost.masters = {node_name(4)};
  net.kill(1);
  net.restart(3);
  net.start(node_name(3), 9, {membership_net::address(1)});
  for (std::size_t i : {0, 2})
    net.machine(i).on_packet(view_packet{lost}, net.now());
  const auto goes_on = [&] {
    const auto& latest = net.view_of(0);
    return latest.newer_than(lost) && latest.find(net.at(2).self.inc) != nullptr &&
           latest.find(net.at(3).self.inc) != nullptr;
  };
  EXPECT_TRUE(net.run_until(goes_on, in_time));
}

/// By mistake two nodes with one name were started on one host, at different ports.
TEST(membership_namesake, one_at_another_port_of_the_host_is_refused_while_the_first_one_answers) {
  for (const std::size_t member : {1, 3}) { // The leader, and a plain member.
    auto net = converged_net(4);
    const auto before = net.view_of(0);
    const auto late = net.start(node_name(member), member, {membership_net::address(2)}, 40000);
    net.run_for(seconds(6));
    EXPECT_EQ(net.view_of(0), before);
    EXPECT_EQ(net.machine(late).state(), membership::phase::looking);
    ASSERT_EQ(net.at(late).refusals.size(), 1u);
    EXPECT_NE(net.at(late).refusals[0].find(membership_net::address(member).host + ":31998"),
              std::string::npos)
        << net.at(late).refusals[0];
    net.kill(member - 1);
    const auto is_in = [&] { return net.view_of(1).find(net.at(late).self.inc) != nullptr; };
    EXPECT_TRUE(net.run_until(is_in, seconds(6))) << "the first one is silent";
  }
}

/// An applicant under a member's name at another address may be the frozen process that the member
/// replaced, so it is not believed.
TEST(membership_namesake, a_replaced_process_elsewhere_does_not_push_its_successor_out) {
  auto net = converged_net(5);
  auto past = net.at(4).self;
  past.control_port += 1;
  past.inc = {6, 6};
  auto before = net.view_of(0);
  net.machine(0).on_packet(join_packet{past, before.stamp(), true, false}, net.now());
  net.run_for(seconds(1));
  EXPECT_EQ(net.view_of(0), before);
}

/// A node that only looks for a cluster cannot tell whether a member lives. So it must make a
/// process wait that asks under this member's name from another host.
TEST(membership_namesake, who_stands_in_takes_no_namesake_for_a_member) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    auto net = converged_net(5, seed);
    for (std::size_t i : {0, 1, 2})
      net.restart(i);
    net.start(node_name(5), 9, {membership_net::address(1)});
    net.run_for(seconds(5));
    EXPECT_EQ(net.view_of(0).find_name(node_name(5))->inc, net.at(4).self.inc) << seed;
    EXPECT_EQ(net.machine(5).state(), membership::phase::looking) << seed;
  }
}

} // namespace
} // namespace peercache::discovery::membership_namesake_test
