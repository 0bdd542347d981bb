// How heartbeats are answered: at once, or, between two masters that answer in time, by the next
// heartbeat of the other.

#include "discovery/membership.hpp"
#include "tests/support/membership_net.hpp"

#include <gtest/gtest.h>

#include <variant>
#include <vector>

namespace peercache::discovery::membership_answers_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using tests::converged_net;
using tests::membership_net;

constexpr auto heartbeat = milliseconds(500);
constexpr auto expiry = seconds(2);
/// The time for a few packets in a row, of at most 5 ms each.
constexpr auto packets = milliseconds(40);

/// Counts what was sent from one node to another.
struct said {
  std::size_t heartbeats = 0;
  std::size_t urgent = 0;
  std::size_t heard = 0;
  std::size_t answers = 0;

  void count(const packet& body) {
    if (const auto* beat = std::get_if<heartbeat_packet>(&body)) {
      ++heartbeats;
      urgent += beat->urgent ? 1 : 0;
      heard += beat->heard ? 1 : 0;
    } else if (std::holds_alternative<heartbeat_answer_packet>(body))
      ++answers;
  }
};

TEST(membership_answers, heartbeats_of_masters_that_answer_in_time_are_their_answers) {
  auto net = converged_net(3);
  said all;
  net.count_packets(all);
  net.run_for(20 * heartbeat);
  EXPECT_GE(all.heartbeats, 19u * 6);
  EXPECT_LE(all.heartbeats, 21u * 6);
  EXPECT_EQ(all.heard, all.heartbeats);
  EXPECT_EQ(all.urgent, 0u);
  EXPECT_EQ(all.answers, 0u);
  EXPECT_TRUE(net.converged());
}

TEST(membership_answers, a_member_that_is_no_master_is_answered_at_once) {
  auto net = converged_net(4);
  said asked;
  net.count_packets(asked, 3, 0);
  net.run_for(10 * heartbeat);
  said answered;
  net.count_packets(answered, 0, 3);
  net.run_for(10 * heartbeat);
  EXPECT_EQ(asked.urgent, asked.heartbeats);
  EXPECT_EQ(asked.heard, 0u);
  EXPECT_GE(answered.answers, 9u);
  EXPECT_EQ(answered.heartbeats, 0u);
}

TEST(membership_answers, a_master_whose_answer_is_late_is_asked_to_answer_at_once) {
  auto net = converged_net(3);
  // Two heartbeats of node 0 to node 1 are lost: the next one of node 1 says nothing of them.
  int lost = 0;
  net.reachable = [&lost](std::size_t from, std::size_t to) {
    const bool drops = from == 0 && to == 1 && lost < 2;
    lost += drops ? 1 : 0;
    return !drops;
  };
  said answered;
  net.count_packets(answered, 1, 0);
  ASSERT_TRUE(net.run_until([&] { return lost == 2; }, 3 * heartbeat));
  EXPECT_EQ(answered.answers, 0u);
  net.run_for(heartbeat + packets);
  EXPECT_EQ(answered.answers, 1u);
  net.run_for(10 * heartbeat);
  EXPECT_EQ(answered.answers, 1u) << "once is enough";
}

TEST(membership_answers, a_master_whose_connection_broke_is_asked_to_answer_at_once) {
  auto net = converged_net(3);
  said asked;
  net.count_packets(asked, 0, 1);
  ASSERT_TRUE(net.run_until([&] { return asked.heartbeats == 1; }, 2 * heartbeat));
  net.run_for(heartbeat / 2); // Between two beats: both of the last one have arrived.
  ASSERT_EQ(asked.urgent, 0u);
  bool blocked = true;
  net.reachable = [&blocked](std::size_t from, std::size_t to) {
    return !blocked || from != 1 || to != 0;
  };
  net.lose(0, net.at(1).self.inc);
  ASSERT_TRUE(net.run_until([&] { return asked.heartbeats == 2; }, 2 * heartbeat));
  EXPECT_EQ(asked.urgent, 1u);
  blocked = false;
  net.run_for(5 * heartbeat);
  EXPECT_EQ(asked.urgent, 1u) << "the answer has shown that the master lives";
  EXPECT_TRUE(net.converged());
}

TEST(membership_answers, what_a_master_heard_before_its_connection_broke_does_not_mend_it) {
  auto net = converged_net(3);
  const auto self = net.at(0).self.inc;
  const auto& other = net.at(1).self;
  said greeted;
  net.count_packets(greeted, 0, 1);
  net.reachable = [](std::size_t from, std::size_t to) { return from != 1 && to != 1; };
  net.lose(0, other.inc);
  net.lose(2, other.inc);
  net.hear(
      0, heartbeat_packet{control_endpoint(other), other.inc, net.view_of(0).stamp(), false, self});
  EXPECT_EQ(greeted.urgent, 1u) << "it is asked at once";
  EXPECT_TRUE(net.run_until([&] { return net.view_of(0).find(other.inc) == nullptr; },
                            2 * heartbeat + heartbeat / 2));
}

TEST(membership_answers, an_outage_that_leaves_a_heartbeat_of_the_expiry_expels_nobody) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    membership_net net(seed);
    net.tick_offsets = 500; // As on hosts whose clocks began at different times.
    for (std::size_t i = 1; i <= 2; ++i)
      net.start(tests::node_name(i), i, {membership_net::address(1)});
    ASSERT_TRUE(net.run_until([&] { return net.converged(); }, seconds(10)));
    net.run_for(seconds(3) + milliseconds(net.random() % 500));
    const auto before = net.view_of(0).stamp();
    net.reachable = [](std::size_t, std::size_t) { return false; };
    net.run_for(expiry - heartbeat - packets);
    net.reachable = [](std::size_t, std::size_t) { return true; };
    net.run_for(heartbeat + packets + milliseconds(net.random() % 300));
    net.reachable = [](std::size_t, std::size_t) { return false; };
    net.run_for(expiry - heartbeat - packets);
    net.reachable = [](std::size_t, std::size_t) { return true; };
    net.run_for(2 * expiry);
    EXPECT_EQ(net.view_of(0).stamp(), before) << "seed " << seed;
    EXPECT_EQ(net.view_of(1).stamp(), before) << "seed " << seed;
  }
}

TEST(membership_answers, a_node_that_looks_for_survivors_is_answered_at_once) {
  membership_net net(1);
  net.max_masters = 5;
  for (std::size_t i = 1; i <= 5; ++i)
    net.start(tests::node_name(i), i, {membership_net::address(1)});
  ASSERT_TRUE(net.run_until([&] { return net.converged(); }, seconds(10)));
  // Node 0 hears node 1 only, which is in touch with a majority and says so.
  net.reachable = [](std::size_t from, std::size_t to) {
    return (from != 0 && to != 0) || from + to == 1;
  };
  net.run_for(2 * expiry);
  ASSERT_TRUE(net.machine(0).frozen(net.now()));
  said answered;
  net.count_packets(answered, 1, 0);
  net.run_for(10 * heartbeat);
  EXPECT_GE(answered.answers, 9u);
  EXPECT_FALSE(net.view_of(0).fragment());
}

TEST(membership_answers, a_master_that_sends_and_hears_nobody_does_not_count_as_living) {
  auto net = converged_net(3);
  net.reachable = [](std::size_t, std::size_t to) { return to != 2; };
  ASSERT_TRUE(net.run_until([&] { return net.view_of(0).find(net.at(2).self.inc) == nullptr; },
                            expiry + 7 * heartbeat / 4));
}

TEST(membership_answers, a_heartbeat_that_answers_another_process_is_no_answer) {
  auto net = converged_net(3);
  const auto& other = net.at(1).self;
  net.reachable = [](std::size_t from, std::size_t) { return from == 0; };
  const auto hears = [&](const incarnation& heard) {
    const auto until = net.now() + expiry + heartbeat;
    while (net.now() < until) {
      net.hear(0, heartbeat_packet{control_endpoint(other), other.inc, net.view_of(0).stamp(),
                                   false, heard});
      net.run_for(heartbeat / 2);
    }
    return !net.machine(0).frozen(net.now());
  };
  EXPECT_TRUE(hears(net.at(0).self.inc));
  EXPECT_FALSE(hears(net.at(2).self.inc));
}

/// Whether node 0 tells node 1, another master, that it has heard the heartbeat of node 1 that came
/// last. @param leaves whether a view without node 1 and another one with node 1 follow
bool says_that_it_heard(bool leaves) {
  auto net = converged_net(3);
  const auto& other = net.at(1).self;
  net.reachable = [](std::size_t, std::size_t) { return false; };
  auto next = net.view_of(0);
  net.hear(0, heartbeat_packet{control_endpoint(other), other.inc, next.stamp(), false, {}});
  if (leaves) {
    ++next.version;
    auto without = next;
    std::erase_if(without.members, [&](const member& one) { return one.inc == other.inc; });
    std::erase(without.masters, other.name);
    net.hear(0, view_packet{without});
    ++next.version;
    net.hear(0, view_packet{next});
  }
  said greeted;
  net.count_packets(greeted, 0, 1);
  EXPECT_TRUE(net.run_until([&] { return greeted.heartbeats == 1; }, heartbeat + packets));
  EXPECT_EQ(net.view_of(0), next);
  return greeted.heard == 1;
}

/// A node remembers heartbeats of members of its view only, and so of few.
TEST(membership_answers, what_a_master_said_is_forgotten_when_it_leaves_the_view) {
  EXPECT_TRUE(says_that_it_heard(false));
  EXPECT_FALSE(says_that_it_heard(true));
}

TEST(membership_answers, a_heartbeat_that_knows_another_view_is_answered_at_once) {
  auto net = converged_net(3);
  const auto& other = net.at(1).self;
  said answered;
  net.count_packets(answered, 0, 1);
  net.hear(0, heartbeat_packet{control_endpoint(other), other.inc, {}, false, {}});
  EXPECT_EQ(answered.answers, 1u) << "the sender lacks the view, which the answer brings";
  net.hear(0,
           heartbeat_packet{control_endpoint(other), other.inc, net.view_of(0).stamp(), false, {}});
  EXPECT_EQ(answered.answers, 1u);
}

} // namespace
} // namespace peercache::discovery::membership_answers_test
