// Tests of packets with numbers near the largest possible one: after them there must still be room
// for further views, ballots and votes.

#include "discovery/jump_guard.hpp"
#include "discovery/membership.hpp"
#include "discovery/view_codec.hpp"
#include "tests/support/membership_net.hpp"

#include <gtest/gtest.h>

namespace peercache::discovery::membership_jumps_test {
namespace {

using std::chrono::seconds;
using tests::converged_net;
using tests::membership_net;
using tests::node_name;

/// A net of four nodes; a test sends a stranger's packets to each of them.
class membership_jumps : public testing::Test {
protected:
  void send_to_all(const std::function<packet(std::size_t)>& make) {
    for (std::size_t i = 0; i < net.size(); ++i) {
      const auto said = make(i);
      // The packet must be one that the codec accepts.
      ASSERT_TRUE(decode_packet(encode_packet(said, "test"), "test"));
      (void)net.machine(i).on_packet(said, net.now());
    }
  }
  /// Expects that the cluster still expels a dead member and takes in a new one.
  void expect_changes() {
    net.kill(3);
    EXPECT_TRUE(net.run_until([&] { return net.converged(); }, seconds(20)))
        << "no one is expelled";
    net.restart(3);
    EXPECT_TRUE(net.run_until([&] { return net.converged(); }, seconds(20)))
        << "no one is taken in";
    net.kill(0);
    EXPECT_TRUE(net.run_until([&] { return net.converged(); }, seconds(20))) << "no one takes over";
  }

  membership_net net = converged_net(4);
};

TEST_F(membership_jumps, a_view_of_the_last_term_ends_no_change) {
  send_to_all([&](std::size_t i) {
    auto last = net.view_of(i);
    last.term = term_max;
    return view_packet{last};
  });
  expect_changes();
}

TEST_F(membership_jumps, a_view_of_the_last_version_ends_no_change) {
  send_to_all([&](std::size_t i) {
    auto last = net.view_of(i);
    last.version = term_max;
    return view_packet{last};
  });
  expect_changes();
}

TEST_F(membership_jumps, a_ballot_of_the_last_term_ends_no_change) {
  send_to_all([&](std::size_t i) {
    const auto& from = net.at((i + 1) % net.size()).self;
    return prepare_packet{
        control_endpoint(from), from.id, net.view_of(i).stamp(), {term_max, from.inc}};
  });
  expect_changes();
}

TEST_F(membership_jumps, a_vote_with_the_last_term_ends_no_change) {
  send_to_all([&](std::size_t i) {
    const auto& from = net.at((i + 1) % net.size()).self;
    vote_packet vote;
    vote.voter = from.id;
    vote.inc = from.inc;
    vote.base = net.view_of(i).stamp();
    vote.promised = {term_max, from.inc};
    return vote;
  });
  expect_changes();
}

TEST_F(membership_jumps, one_master_that_believed_in_a_jump_stays_with_the_others) {
  const auto& from = net.at(2).self;
  const ballot far{net.view_of(1).term + jump_guard::jump_max, from.inc};
  (void)net.machine(1).on_packet(
      prepare_packet{control_endpoint(from), from.id, net.view_of(1).stamp(), far}, net.now());
  expect_changes();
}

TEST(jump_guard, believes_small_steps_and_comes_nearer_to_large_ones) {
  constexpr auto far = 2 * jump_guard::jump_max + 5;
  jump_guard guard;
  EXPECT_TRUE(guard.admits(1, 0));
  EXPECT_TRUE(guard.admits(jump_guard::jump_max, 1));
  EXPECT_FALSE(guard.admits(far + 1, 0));
  EXPECT_TRUE(guard.admits(far, 0));
  EXPECT_TRUE(guard.admits(3, 0)) << "older ones are harmless";
  jump_guard other;
  EXPECT_FALSE(other.admits(term_max, 0));
  EXPECT_FALSE(other.admits(term_max, 0));
  EXPECT_TRUE(other.admits(term_max, term_max - 1)) << "known already";
}

} // namespace
} // namespace peercache::discovery::membership_jumps_test
