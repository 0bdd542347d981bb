// Views that travel as differences: who is sent which form, and what happens to a node that cannot
// apply the difference.

#include "common/test_guards.hpp"
#include "discovery/membership.hpp"
#include "tests/support/membership_net.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <variant>

namespace peercache::discovery::membership_difference_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using tests::converged_net;
using tests::membership_net;

constexpr auto heartbeat = milliseconds(500);
/// The time for a few packets in a row, of at most 5 ms each.
constexpr auto packets = milliseconds(40);

/// Counts the forms in which one node, or all, are sent views.
struct views_sent {
  std::size_t whole = 0;
  std::size_t changes = 0;
  std::size_t whole_in_answers = 0;
  std::size_t changes_in_answers = 0;

  void count(const packet& sent) {
    whole += std::holds_alternative<view_packet>(sent) ? 1 : 0;
    changes += std::holds_alternative<view_change_packet>(sent) ? 1 : 0;
    if (const auto* answer = std::get_if<heartbeat_answer_packet>(&sent)) {
      whole_in_answers += answer->newer ? 1 : 0;
      changes_in_answers += answer->change ? 1 : 0;
    }
  }
};

/// Changes the view by a drain of node `i`, or the end of its drain, and waits until the leader has
/// the view.
void change_view(membership_net& net, std::size_t i) {
  const auto before = net.view_of(0).stamp();
  const auto* own = net.view_of(0).find(net.at(i).self.inc);
  net.set_draining(i, !own->draining);
  ASSERT_TRUE(net.run_until([&] { return net.view_of(0).stamp() > before; }, seconds(2)));
}

/// Changes the view while node `i` is sent nothing.
void change_view_behind(membership_net& net, std::size_t i, std::size_t drained) {
  net.reachable = [i](std::size_t, std::size_t to) { return to != i; };
  change_view(net, drained);
  net.run_for(packets);
  net.reachable = [](auto, auto) { return true; };
}

TEST(membership_difference, members_are_sent_what_changed) {
  auto net = converged_net(6);
  views_sent sent;
  net.count_packets(sent);
  change_view(net, 4);
  ASSERT_TRUE(net.run_until([&] { return net.converged(); }, packets));
  EXPECT_GE(sent.changes, 5u);
  EXPECT_EQ(sent.whole + sent.whole_in_answers, 0u);
}

TEST(membership_difference, a_newcomer_and_those_left_out_are_sent_the_whole_view) {
  auto net = converged_net(6);
  views_sent sent;
  const auto newcomer = net.start("newcomer", 9, {membership_net::address(1)});
  net.count_packets(sent, {}, newcomer);
  ASSERT_TRUE(net.run_until([&] { return net.converged(); }, seconds(2)));
  EXPECT_GE(sent.whole, 1u);
  EXPECT_EQ(sent.changes, 0u);
  sent = {};
  net.count_packets(sent, {}, 1);
  net.leave(1);
  ASSERT_TRUE(net.run_until([&] { return net.converged(); }, seconds(2)));
  EXPECT_EQ(sent.changes, 0u);
  EXPECT_EQ(sent.whole, 1u) << "the leaving master waits for a view without it";
}

TEST(membership_difference, a_node_without_the_base_asks_for_the_whole_view_at_once) {
  auto net = converged_net(6);
  change_view_behind(net, 5, 3);
  const auto missed = net.view_of(0);
  ASSERT_TRUE(missed.newer_than(net.view_of(5)));
  views_sent sent;
  net.count_packets(sent, {}, 5);
  change_view(net, 4);
  ASSERT_TRUE(net.run_until([&] { return net.converged(); }, packets));
  EXPECT_EQ(sent.changes, 1u);
  EXPECT_EQ(sent.whole, 1u);
  for (const auto& adopted : net.at(5).adopted)
    EXPECT_NE(adopted.stamp(), missed.stamp()) << "the view that it missed is not made up";
}

TEST(membership_difference, a_node_one_view_behind_learns_the_difference_by_its_heartbeat) {
  auto net = converged_net(6);
  change_view_behind(net, 5, 3);
  views_sent sent;
  net.count_packets(sent, {}, 5);
  ASSERT_TRUE(net.run_until([&] { return net.converged(); }, heartbeat + packets));
  EXPECT_GE(sent.changes_in_answers, 1u);
  EXPECT_EQ(sent.whole + sent.whole_in_answers, 0u);
}

TEST(membership_difference, a_node_two_views_behind_learns_the_whole_view_by_its_heartbeat) {
  auto net = converged_net(6);
  change_view_behind(net, 5, 3);
  change_view_behind(net, 5, 4);
  views_sent sent;
  net.count_packets(sent, {}, 5);
  ASSERT_TRUE(net.run_until([&] { return net.converged(); }, heartbeat + packets));
  EXPECT_GE(sent.whole_in_answers, 1u);
  EXPECT_EQ(sent.changes_in_answers, 0u);
}

/// A process that leaves may end before anybody could ask it for the whole view.
TEST(membership_difference, a_leader_that_leaves_sends_the_whole_view) {
  membership_net net(1);
  net.max_masters = 1;
  for (std::size_t i = 1; i <= 5; ++i)
    net.start(tests::node_name(i), i, {membership_net::address(1)});
  ASSERT_TRUE(net.run_until([&] { return net.converged(); }, seconds(5)));
  net.run_for(seconds(3));
  views_sent sent;
  net.count_packets(sent);
  net.leave(0);
  EXPECT_EQ(sent.whole, 4u);
  EXPECT_EQ(sent.changes, 0u);
}

TEST(membership_difference, many_changes_over_a_lossy_network_end_in_one_view) {
  std::size_t whole = 0, changes = 0;
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    auto net = converged_net(7, seed);
    views_sent sent;
    net.count_packets(sent);
    net.net.loss = 0.2;
    for (int step = 0; step < 10; ++step) {
      net.set_draining(1 + net.random() % 6, net.random() % 2 == 0);
      net.run_for(milliseconds(net.random() % 400));
    }
    net.net.loss = 0;
    ASSERT_TRUE(net.run_until([&] { return net.converged(); }, seconds(10))) << seed;
    whole += sent.whole + sent.whole_in_answers;
    changes += sent.changes + sent.changes_in_answers;
  }
  std::printf("[ measured ] views sent over a lossy network: %zu differences, %zu whole\n", changes,
              whole);
  EXPECT_GT(changes, whole);
}

/// Lets node 5 believe a forged view of the true stamp, and then changes the view. Returns whether
/// node 5 ends with the view that all others have.
bool gets_the_true_view_after_a_forged_one() {
  auto net = converged_net(6);
  net.reachable = [](std::size_t, std::size_t to) { return to != 5; };
  change_view(net, 3);
  auto forged = net.view_of(0);
  forged.members[1].data_port = 1;
  net.hear(5, view_packet{forged});
  net.reachable = [](auto, auto) { return true; };
  change_view(net, 4);
  net.run_for(seconds(2));
  return net.view_of(5) == net.view_of(0);
}

TEST(membership_difference, without_its_guard_a_wrong_base_leaves_a_node_with_a_wrong_view) {
  EXPECT_TRUE(gets_the_true_view_after_a_forged_one());
  guard_switched_off scope(guard::difference);
  EXPECT_FALSE(gets_the_true_view_after_a_forged_one());
}

/// A difference from nowhere is asked about once, and only when it would be news.
TEST(membership_difference, a_difference_that_makes_no_view_changes_nothing) {
  auto net = converged_net(5);
  const auto& known = net.view_of(3);
  auto next = known;
  ++next.version;
  next.members.front().draining = true;
  auto change = *difference_between(known, next);
  ++change.digest;
  const endpoint from{"10.9.9.9", 1};
  auto actions = net.machine(3).on_packet(view_change_packet{from, change}, net.now());
  ASSERT_EQ(actions.size(), 1u);
  const auto& asked = std::get<send_packet>(actions[0]);
  EXPECT_EQ(asked.to, from);
  EXPECT_EQ(std::get<heartbeat_answer_packet>(asked.body).known, view_stamp{});
  EXPECT_EQ(net.machine(3).newest(), known);
  change.base.version -= 2;
  change.stamp.version = change.base.version + 1;
  actions = net.machine(3).on_packet(view_change_packet{from, change}, net.now());
  EXPECT_TRUE(actions.empty()) << "older than what it has";
}

} // namespace
} // namespace peercache::discovery::membership_difference_test
