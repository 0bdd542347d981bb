// What a peer that may send packets can make a node remember, and what a node has room for all the
// same.

#include "common/limits.hpp"
#include "discovery/membership.hpp"
#include "tests/support/membership_net.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace peercache::discovery::membership_limits_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using tests::converged_net;
using tests::membership_net;

constexpr auto heartbeat = milliseconds(500);
constexpr auto expiry = seconds(2);

/// Nodes that are in no net, sorted by id. They have different names, hosts and processes.
std::vector<member> strangers(std::size_t count) {
  std::vector<member> made(count);
  for (std::size_t i = 0; i < count; ++i) {
    made[i].name = "stranger" + std::to_string(i);
    made[i].id = node_id_of(made[i].name);
    made[i].inc = {i + 1, 7};
    made[i].host = "10.9." + std::to_string(i / 256) + "." + std::to_string(i % 256);
    made[i].control_port = 31998;
  }
  std::sort(made.begin(), made.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  return made;
}

join_packet join_of(const member& who) {
  return {who, {}, false, false};
}

/// A node asks while there is room for nobody else, and is alone with the head when the others have
/// not asked for an expiry. @param repeats whether it asks again then
view founded_after_flood(bool repeats) {
  membership_options options;
  options.seeds = {membership_net::address(1), membership_net::address(2)};
  options.heartbeat = heartbeat;
  options.expiry = expiry;
  options.patience = milliseconds(200);
  member self = strangers(1).front();
  self.name = "head";
  self.id = node_id_of(self.name);
  self.host = membership_net::address(1).host;
  self.inc = {1, 1};
  const auto start = time_point(std::chrono::hours(1));
  membership head(options, self, start);
  const auto asking = strangers(limits::members_max + 1);
  for (std::size_t i = 1; i < asking.size(); ++i)
    head.on_packet(join_of(asking[i]), start);
  head.on_packet(join_of(asking[0]), start + milliseconds(100));
  head.tick(start + expiry + milliseconds(50));
  EXPECT_EQ(head.state(), membership::phase::looking);
  if (repeats)
    head.on_packet(join_of(asking[0]), start + expiry + milliseconds(100));
  head.tick(start + expiry + milliseconds(200));
  EXPECT_TRUE(head.leads());
  return head.current();
}

TEST(membership_limits, a_node_that_looks_for_a_cluster_notes_as_many_applicants_as_one_may_have) {
  EXPECT_EQ(founded_after_flood(false).members.size(), 1u);
  EXPECT_EQ(founded_after_flood(true).members.size(), 2u);
}

/// Counts the refusals that were sent, by their reason.
struct refusals {
  std::size_t full = 0;
  std::size_t no_majority = 0;

  void count(const packet& body) {
    if (const auto* no = std::get_if<refused_packet>(&body)) {
      full += no->why == refusal::full ? 1 : 0;
      no_majority += no->why == refusal::no_majority ? 1 : 0;
    }
  }
};

TEST(membership_limits, a_member_that_starts_again_finds_room_among_any_number_of_strangers) {
  auto net = converged_net(3);
  net.reachable = [](std::size_t, std::size_t) { return false; };
  ASSERT_TRUE(net.run_until([&] { return net.machine(0).frozen(net.now()); }, seconds(3)));
  refusals said;
  net.count_packets(said, 0);
  const auto asking = strangers(limits::members_max + 2);
  for (std::size_t i = 0; i < limits::members_max; ++i)
    net.hear(0, join_of(asking[i]));
  EXPECT_EQ(said.no_majority, limits::members_max);
  EXPECT_EQ(said.full, 0u);
  for (std::size_t i = limits::members_max; i < asking.size(); ++i)
    net.hear(0, join_of(asking[i]));
  EXPECT_EQ(said.full, 2u) << "there is room for no more";
  net.hear(0, join_of(asking[0]));
  EXPECT_EQ(said.full, 2u) << "that one is remembered already";
  net.restart(1);
  net.hear(0, join_of(net.at(1).self));
  EXPECT_EQ(said.full, 2u) << "a member comes back";
  EXPECT_EQ(said.no_majority, limits::members_max + 2);
}

TEST(membership_limits, a_node_remembers_as_many_strangers_that_leave_as_a_cluster_may_have) {
  auto net = converged_net(3);
  auto leaving = strangers(limits::members_max + 1);
  for (const auto& who : leaving)
    net.hear(0, leave_packet{who.inc});
  net.hear(0, join_of(leaving.front()));
  net.hear(0, join_of(leaving.back()));
  ASSERT_TRUE(net.run_until([&] { return net.view_of(0).members.size() > 3; }, seconds(1)));
  EXPECT_NE(net.view_of(0).find(leaving.back().inc), nullptr) << "it was not remembered";
  EXPECT_EQ(net.view_of(0).find(leaving.front().inc), nullptr);
}

/// As `membership_leaving.who_leads_next_has_not_forgotten_who_left`.
TEST(membership_limits, that_a_member_leaves_is_remembered_among_any_number_of_strangers) {
  auto net = converged_net(5);
  auto next = net.view_of(0);
  next.version += 1;
  for (std::size_t i = 0; i < 4; ++i) {
    for (const auto& who : strangers(limits::members_max))
      net.hear(i, leave_packet{who.inc});
    net.hear(i, leave_packet{net.at(4).self.inc});
  }
  net.kill(4);
  for (std::size_t i = 0; i < 4; ++i)
    net.hear(i, view_packet{next});
  const auto took = net.run_until([&] { return net.converged(); }, seconds(5));
  ASSERT_TRUE(took);
  EXPECT_LE(*took, heartbeat);
}

/// A node that remembers who is vouched for ticks each quarter of a heartbeat.
TEST(membership_limits, a_vote_vouches_for_members_only) {
  auto net = converged_net(3);
  const auto beat_is_over = [&net] {
    return net.now().time_since_epoch() % heartbeat == milliseconds(100);
  };
  ASSERT_TRUE(net.run_until(beat_is_over, heartbeat));
  const auto vouch_for = [&](std::vector<incarnation> alive) {
    vote_packet vote;
    vote.voter = net.at(1).self.id;
    vote.inc = net.at(1).self.inc;
    vote.base = net.view_of(0).stamp();
    vote.answer = verdict::vetoed;
    vote.alive = std::move(alive);
    net.hear(0, vote);
    return net.machine(0).next_tick(net.now());
  };
  const auto at_rest = vouch_for({});
  EXPECT_EQ(vouch_for({strangers(1).front().inc}), at_rest);
  EXPECT_LT(vouch_for({net.at(2).self.inc}), at_rest);
}

} // namespace
} // namespace peercache::discovery::membership_limits_test
