#include "discovery/membership.hpp"
#include "tests/support/membership_net.hpp"

#include <gtest/gtest.h>

// Tests of masters that leave a cluster of three or more voting masters.
namespace peercache::discovery::membership_leaving_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using tests::converged_net;
using tests::membership_net;
using tests::node_name;

constexpr auto heartbeat = milliseconds(500);
constexpr auto expiry = seconds(2);
constexpr auto slack = milliseconds(150);

TEST(membership_leaving, a_leader_and_a_second_master_leave_together) {
  auto net = converged_net(5);
  net.leave(0);
  net.leave(1);
  auto took = net.run_until([&] { return net.machine(2).leads() && net.converged(); }, seconds(5));
  ASSERT_TRUE(took);
  EXPECT_LE(*took, heartbeat + slack) << "those who leave still vote";
}

TEST(membership_leaving, a_master_that_leaves_votes_until_the_cluster_can_do_without_it) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    auto net = converged_net(5, seed);
    net.run_for(milliseconds(net.random() % 500));
    net.freeze(1); // Node 1 is the master that would lead next.
    net.run_for(milliseconds(net.random() % 500));
    net.leave(0);
    EXPECT_FALSE(net.machine(0).may_end(net.now())) << "the third master alone is no majority";
    ASSERT_TRUE(
        net.run_until([&] { return net.machine(0).may_end(net.now()); }, expiry + 2 * heartbeat))
        << seed;
    net.kill(0);
    net.kill(1);
    EXPECT_TRUE(net.run_until([&] { return net.converged(); }, seconds(3))) << seed;
  }
}

TEST(membership_leaving, who_leaves_is_kept_no_longer_than_it_is_of_use) {
  auto ends = [](membership_net& net, std::size_t i, milliseconds within) {
    return net.run_until([&] { return net.machine(i).may_end(net.now()); }, within).has_value();
  };
  auto net = converged_net(6);
  net.leave(5);
  EXPECT_TRUE(net.machine(5).may_end(net.now())) << "it is no master";
  net.leave(0);
  EXPECT_TRUE(ends(net, 0, slack)) << "the others decided";
  ASSERT_TRUE(net.run_until([&] { return net.machine(1).leads() && net.converged(); }, seconds(5)));
  for (std::size_t i : {1, 2, 3, 4})
    net.leave(i);
  for (std::size_t i : {1, 2, 3, 4})
    EXPECT_TRUE(ends(net, i, slack)) << "all leave: there is nobody to vote for";
}

TEST(membership_leaving, all_masters_leave_together_and_the_others_go_on) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    auto net = converged_net(6, seed);
    for (std::size_t i : {0, 1, 2}) {
      net.leave(i);
      net.run_for(milliseconds(net.random() % 8));
    }
    auto ended = net.run_until(
        [&] {
          bool all = true;
          for (std::size_t i : {0, 1, 2}) {
            if (net.is_running(i) && net.machine(i).may_end(net.now()))
              net.kill(i);
            all = all && !net.is_running(i);
          }
          return all;
        },
        expiry + 2 * heartbeat);
    ASSERT_TRUE(ended) << seed;
    EXPECT_TRUE(net.run_until([&] { return net.converged(); }, seconds(5))) << seed;
  }
}

TEST(membership_leaving, the_second_of_the_masters_that_leave_takes_the_first_ones_turn) {
  auto net = converged_net(5);
  for (std::size_t i : {0, 1, 2})
    net.leave(i);
  net.kill(0); // Node 0 is killed after it has told the other nodes that it leaves.
  ASSERT_TRUE(net.run_until([&] { return net.machine(1).may_end(net.now()); }, seconds(3)));
  net.kill(1);
  net.kill(2);
  EXPECT_TRUE(net.run_until([&] { return net.converged(); }, seconds(5)));
}

TEST(membership_leaving, that_a_master_leaves_is_said_again_when_it_was_lost) {
  auto net = converged_net(5);
  net.net.loss = 1;
  net.leave(0);
  net.run_for(milliseconds(20));
  net.net.loss = 0;
  auto took = net.run_until([&] { return net.machine(0).may_end(net.now()); }, seconds(5));
  ASSERT_TRUE(took);
  EXPECT_LE(*took, heartbeat + slack);
}

/// A node hears that another node leaves. Then a view arrives, sent earlier, that makes the node
/// leader and still has the leaving node. The new leader must remember that this node left.
TEST(membership_leaving, who_leads_next_has_not_forgotten_who_left) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    auto net = converged_net(5, seed);
    auto next = net.view_of(0);
    next.version += 1;
    for (std::size_t i = 0; i < 5; ++i)
      net.hear(i, leave_packet{net.at(4).self.inc});
    net.kill(4);
    for (std::size_t i = 0; i < 4; ++i)
      net.hear(i, view_packet{next});
    auto took = net.run_until([&] { return net.converged(); }, seconds(5));
    ASSERT_TRUE(took) << seed;
    EXPECT_LE(*took, heartbeat) << seed;
  }
}

/// The leader cannot take in an applicant, which then leaves: once the leader can change the view,
/// it must not take in the process that is gone.
TEST(membership_leaving, who_leaves_before_it_was_taken_in_is_in_no_view) {
  auto net = converged_net(5);
  net.reachable = [](std::size_t a, std::size_t b) { return (a % 5 == 0) == (b % 5 == 0); };
  net.run_for(milliseconds(2500));
  ASSERT_TRUE(net.machine(0).frozen(net.now()));
  const auto late = net.start(node_name(6), 6, {membership_net::address(1)});
  ASSERT_TRUE(net.run_until([&] { return !net.at(late).refusals.empty(); }, seconds(1)));
  net.leave(late);
  EXPECT_TRUE(net.machine(late).may_end(net.now()));
  net.run_for(milliseconds(20));
  net.kill(late);
  net.reachable = [](auto, auto) { return true; };
  ASSERT_TRUE(net.run_until([&] { return net.converged(); }, milliseconds(1500)));
  net.run_for(heartbeat);
  for (const auto& view : net.at(0).adopted)
    EXPECT_EQ(view.find_name(node_name(6)), nullptr);
}

} // namespace
} // namespace peercache::discovery::membership_leaving_test
