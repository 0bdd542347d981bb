// Tests of which votes a voting round counts, and when they are enough.

#include "discovery/quorum.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace peercache::discovery {
namespace {

constexpr incarnation stranger{6, 6};

/// A voting round in which node1 wants to make the view after a base view of three masters and no
/// other members.
class voting_round_test : public ::testing::Test {
protected:
  static view three_masters() {
    view base;
    base.term = 3;
    base.version = 7;
    for (const std::string name : {"node1", "node2", "node3"}) {
      member m;
      m.name = name;
      m.id = node_id_of(name);
      m.inc = {1, base.members.size() + 1};
      base.members.push_back(m);
      base.masters.push_back(name);
    }
    std::sort(base.members.begin(), base.members.end(),
              [](const member& a, const member& b) { return a.id < b.id; });
    return base;
  }

  incarnation inc_of(const std::string& name) const { return base.find_name(name)->inc; }

  /// Counts a vote of the process `inc` under the name of the master `name`; `successor` says
  /// whether the process calls itself the master's successor.
  void count(const std::string& name, const incarnation& inc, bool successor, verdict answer) {
    round.count({.voter = base.find_name(name)->id,
                 .inc = inc,
                 .base = base.stamp(),
                 .attempt = round.attempt(),
                 .step = round.step(),
                 .answer = answer,
                 .successor = successor,
                 .promised = round.attempt(),
                 .alive = {},
                 .accepted = {}});
  }

  const view base = three_masters();
  voting_round round{base, {base.term, inc_of("node1")}, time_point{}};
};

/// Even when a successor votes against an attempt, its vote tells that the master in whose place it
/// runs is gone.
TEST_F(voting_round_test, a_successor_that_refuses_tells_that_its_master_is_gone) {
  round.propose(base, false, time_point{});
  count("node1", inc_of("node1"), false, verdict::granted);
  count("node3", stranger, true, verdict::granted);
  EXPECT_FALSE(round.enough()) << "node2 may live";
  count("node2", stranger, true, verdict::refused);
  EXPECT_TRUE(round.enough());
}

/// The leader counts its own vote last; after a third master's vote against the attempt it would
/// not be enough.
TEST_F(voting_round_test, who_knows_that_it_lives_does_not_hope_to_be_gone) {
  count("node2", stranger, true, verdict::granted);
  EXPECT_TRUE(round.possible_with(1, 0, 1));
  count("node3", inc_of("node3"), false, verdict::vetoed);
  EXPECT_FALSE(round.possible_with(1, 0, 0));
  EXPECT_TRUE(round.possible_with(0, 1, 0)) << "two of three would be gone";
}

/// A master that has heard of a later view than the base may call itself a successor. Its vote
/// still counts as the master's, because the base has its incarnation.
TEST_F(voting_round_test, a_master_that_does_not_know_that_it_is_one_has_its_vote) {
  count("node1", inc_of("node1"), false, verdict::granted);
  count("node2", stranger, false, verdict::granted);
  EXPECT_FALSE(round.enough()) << "it is neither";
  count("node2", inc_of("node2"), true, verdict::granted);
  EXPECT_TRUE(round.enough());
}

} // namespace
} // namespace peercache::discovery
