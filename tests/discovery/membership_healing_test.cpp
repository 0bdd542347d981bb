// Tests that nodes have one view within three heartbeats after faults end, in cases that could
// delay it.

#include "discovery/membership.hpp"
#include "tests/support/membership_net.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>

namespace peercache::discovery::membership_healing_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using tests::converged_net;
using tests::membership_net;
using tests::node_name;

constexpr auto heartbeat = milliseconds(500);
constexpr auto expiry = seconds(2);
constexpr auto in_time = 3 * heartbeat;

/// A net of `count` nodes, of which the first two are the seeds.
membership_net two_seeds(std::size_t count, std::uint64_t seed) {
  membership_net net(seed);
  for (std::size_t i = 1; i <= count; ++i)
    net.start(node_name(i), i, {membership_net::address(1), membership_net::address(2)});
  return net;
}

/// The head (the first seed) founds the cluster without waiting for the other seed, which asks the
/// head to take it in.
TEST(membership_healing, a_new_cluster_with_two_seeds_is_one_view_at_once) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    auto net = two_seeds(5, seed);
    auto took = net.run_until([&] { return net.converged(); }, seconds(10));
    ASSERT_TRUE(took) << seed;
    EXPECT_LE(*took, in_time) << seed;
    EXPECT_EQ(net.at(0).adopted.size(), 1u) << "everybody is in the first view";
  }
}

TEST(membership_healing, a_head_waits_for_a_seed_that_is_down) {
  membership_net net(1);
  net.start(node_name(1), 1, {membership_net::address(1), membership_net::address(2)});
  net.run_for(in_time);
  EXPECT_EQ(net.machine(0).state(), membership::phase::looking) << "node2 may have a cluster";
  EXPECT_TRUE(net.run_until([&] { return net.converged(); }, seconds(2)));
}

/// The new leader does not hear a member that another master hears. It learns of the member from
/// that master's vote and asks again, without waiting for the third master, which restarted and has
/// no vote.
TEST(membership_healing, a_leader_that_a_vote_contradicts_asks_again_soon) {
  auto net = converged_net(5);
  const auto base = net.view_of(1).stamp();
  std::optional<time_point> contradicted;
  std::optional<time_point> asked_again;
  bool asked_who_restarted = false;
  net.watch = [&](std::size_t from, const send_packet& out) {
    if (const auto* vote = std::get_if<vote_packet>(&out.body))
      if (vote->answer == verdict::vetoed && !contradicted)
        contradicted = net.now();
    if (from == 1 && contradicted && !asked_again &&
        std::holds_alternative<prepare_packet>(out.body))
      asked_again = net.now();
    if (const auto* proposal = std::get_if<propose_packet>(&out.body))
      asked_who_restarted =
          asked_who_restarted || (proposal->base == base && out.to == membership_net::address(1));
  };
  net.reachable = [](std::size_t from, std::size_t to) { return from != 3 || to != 1; };
  net.run_for(seconds(3));
  EXPECT_FALSE(contradicted) << "node1 leads and hears node4";
  net.restart(0);
  ASSERT_TRUE(net.run_until([&] { return asked_again.has_value(); }, seconds(5)));
  EXPECT_LE(*asked_again - *contradicted, heartbeat / 2);
  ASSERT_TRUE(net.run_until([&] { return net.converged(); }, seconds(1)));
  EXPECT_EQ(net.view_of(1).members.size(), 5u);
  EXPECT_FALSE(asked_who_restarted) << "its vote would have to be finished by others";
}

/// A veto against a proposed view must name all members that the voter hears and the view lacks, so
/// that the next attempt can have them.
TEST(membership_healing, a_veto_names_everybody_who_is_heard) {
  auto net = converged_net(6);
  auto base = net.view_of(1);
  propose_packet lonely{
      control_endpoint(net.at(0).self), base.stamp(), {base.term, net.at(0).self.inc}, false, base};
  lonely.value.version += 1;
  std::erase_if(lonely.value.members, [](const member& m) { return m.name > node_name(3); });
  auto actions = net.machine(1).on_packet(lonely, net.now());
  ASSERT_EQ(actions.size(), 1u);
  const auto& vote = std::get<vote_packet>(std::get<send_packet>(actions[0]).body);
  EXPECT_EQ(vote.answer, verdict::vetoed);
  ASSERT_EQ(vote.alive.size(), 3u);
  for (std::size_t i : {3, 4, 5})
    EXPECT_EQ(std::count(vote.alive.begin(), vote.alive.end(), net.at(i).self.inc), 1) << i;
}

/// A master has promised its vote to an attempt whose maker is gone. The next attempt must take a
/// higher ballot at once, and not only after a time-out.
TEST(membership_healing, a_promise_to_somebody_who_is_gone_holds_nobody_up) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    auto net = converged_net(3, seed);
    auto base = net.view_of(0);
    for (std::size_t i : {0, 1, 2})
      net.restart(i);
    net.machine(2).on_packet(view_packet{base}, net.now());
    prepare_packet gone{{"10.0.0.66", 31998}, net.at(0).self.id, base.stamp(), {base.term + 9, {}}};
    net.machine(2).on_packet(gone, net.now());
    auto took = net.run_until([&] { return net.converged(); }, seconds(10));
    ASSERT_TRUE(took) << seed;
    EXPECT_LE(*took, in_time + heartbeat / 2) << seed << ": node3's promise was heard of late";
  }
}

/// The only master of the newest view, who would decide alone, was replaced by another process, so
/// nobody can make a view after this one. Nodes must not wait for it.
TEST(membership_healing, a_view_whose_masters_were_replaced_is_waited_for_by_nobody) {
  auto net = converged_net(3);
  auto lost = net.view_of(0);
  lost.term += 5;
  std::erase_if(lost.members, [](const member& m) { return m.name != node_name(2); });
  lost.masters = {node_name(2)};
  net.restart(1);
  net.machine(0).on_packet(view_packet{lost}, net.now());
  net.machine(2).on_packet(view_packet{lost}, net.now());
  ASSERT_EQ(net.machine(0).state(), membership::phase::rejoining);
  auto took = net.run_until([&] { return net.converged(); }, seconds(10));
  ASSERT_TRUE(took);
  EXPECT_LE(*took, in_time);
  EXPECT_GT(net.view_of(0).term, lost.term);
}

/// Both seeds restart. A member that lives on tells them that a cluster exists, and sends its view
/// only a little later.
TEST(membership_healing, a_head_that_hears_of_a_cluster_founds_no_other) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    auto net = two_seeds(5, seed);
    ASSERT_TRUE(net.run_until([&] { return net.converged(); }, seconds(10)));
    const auto before = net.view_of(0);
    const auto lived_in = net.at(0).adopted.size();
    for (std::size_t i : {0, 1})
      net.restart(i);
    net.reachable = [](std::size_t from, std::size_t to) { return from > 1 || to < 2; };
    net.run_for(in_time);
    net.reachable = [](auto, auto) { return true; };
    ASSERT_TRUE(net.run_until([&] { return net.converged(); }, seconds(10))) << seed;
    EXPECT_NE(net.at(0).adopted.at(lived_in).find(net.at(2).self.inc), nullptr) << seed;
    EXPECT_TRUE(net.view_of(0).newer_than(before)) << seed;
  }
}

/// All masters restart at once; only one of them at a time may act for the cluster.
TEST(membership_healing, one_of_those_who_stand_in_goes_first) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    auto net = converged_net(5, seed);
    std::set<std::size_t> candidates;
    net.watch = [&](std::size_t from, const send_packet& out) {
      if (std::holds_alternative<prepare_packet>(out.body))
        candidates.insert(from);
    };
    for (std::size_t i : {0, 1, 2})
      net.restart(i);
    auto took = net.run_until([&] { return net.converged(); }, seconds(10));
    ASSERT_TRUE(took) << seed;
    EXPECT_LE(*took, in_time) << seed;
    EXPECT_EQ(candidates.size(), 1u) << seed;
  }
}

/// All masters have accepted a proposed view; then they hear of a newer view without them, whose
/// only master is gone.
TEST(membership_healing, what_has_to_be_finished_first_is_gone_on_from) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    auto net = converged_net(3, seed);
    auto accepted = net.view_of(0);
    accepted.version += 1;
    auto elsewhere = accepted;
    elsewhere.term += 5;
    elsewhere.members.resize(1);
    elsewhere.members[0].name = "elsewhere";
    elsewhere.members[0].id = node_id_of("elsewhere");
    elsewhere.members[0].inc = {6, 6};
    elsewhere.members[0].host = "10.0.0.66";
    elsewhere.masters = {"elsewhere"};
    const propose_packet proposal{
        {"10.0.0.66", 31998}, net.view_of(0).stamp(), {accepted.term, {6, 6}}, false, accepted};
    for (std::size_t i : {0, 1, 2}) {
      net.machine(i).on_packet(proposal, net.now());
      net.machine(i).on_packet(view_packet{elsewhere}, net.now());
      ASSERT_EQ(net.machine(i).state(), membership::phase::rejoining);
    }
    bool went_on = false;
    net.watch = [&](std::size_t, const send_packet& out) {
      if (const auto* next = std::get_if<propose_packet>(&out.body))
        went_on = went_on || next->base == accepted.stamp();
    };
    ASSERT_TRUE(net.run_until([&] { return net.converged(); }, 2 * expiry + in_time)) << seed;
    EXPECT_TRUE(went_on);
    EXPECT_TRUE(net.view_of(0).newer_than(elsewhere));
    EXPECT_EQ(net.at(0).adopted.back(), net.view_of(0)) << "in the finished one nobody lived";
    for (const auto& view : net.at(0).adopted)
      EXPECT_NE(view.stamp(), accepted.stamp());
  }
}

/// A node that is in no view is asked in turn for votes about two views. It must not forget its
/// vote about one of them when it votes about the other.
TEST(membership_healing, a_vote_is_not_forgotten_for_another_about_an_older_view) {
  auto net = converged_net(3);
  const auto base = net.view_of(0);
  auto older = base;
  older.version -= 1;
  auto left = base;
  left.term += 5;
  left.masters = {node_name(3)};
  net.restart(1);
  auto& asked = net.machine(1);
  asked.on_packet(view_packet{left}, net.now());
  auto value = base;
  value.version += 1;
  const endpoint from = control_endpoint(net.at(0).self);
  const ballot attempt{left.term + 1, net.at(0).self.inc};
  asked.on_packet(propose_packet{from, base.stamp(), attempt, false, value}, net.now());
  const auto question = [&](const view& about) {
    const auto actions = asked.on_packet(
        prepare_packet{from, net.at(0).self.id, about.stamp(), {attempt.term + 1, attempt.issuer}},
        net.now());
    return std::get<vote_packet>(std::get<send_packet>(actions.back()).body);
  };
  EXPECT_FALSE(question(older).accepted);
  const auto vote = question(base);
  ASSERT_TRUE(vote.accepted);
  EXPECT_EQ(vote.accepted->value, value);
}

/// A node that stands in for lost masters waits when a master that goes before it has refused it.
/// This master may die meanwhile, so the wait must end in time.
TEST(membership_healing, who_was_refused_as_a_stand_in_tries_again_in_time) {
  auto net = converged_net(3);
  const auto base = net.view_of(0);
  std::optional<prepare_packet> asked;
  std::optional<time_point> asked_at;
  net.watch = [&](std::size_t from, const send_packet& out) {
    if (const auto* question = std::get_if<prepare_packet>(&out.body); from == 2 && question) {
      asked = *question;
      asked_at = net.now();
    }
  };
  for (std::size_t i : {0, 1})
    net.kill(i);
  net.restart(2);
  net.machine(2).on_packet(view_packet{base}, net.now());
  ASSERT_TRUE(net.run_until([&] { return asked.has_value(); }, seconds(3)));
  const vote_packet refused{.voter = base.find_name(node_name(1))->id,
                            .inc = base.find_name(node_name(1))->inc,
                            .base = base.stamp(),
                            .attempt = asked->attempt,
                            .step = voting_step::prepare,
                            .answer = verdict::refused,
                            .successor = false,
                            .promised = {},
                            .alive = {},
                            .accepted = {}};
  net.machine(2).on_packet(refused, net.now());
  net.machine(2).on_packet(
      [&] {
        auto other = refused;
        other.voter = base.find_name(node_name(2))->id;
        other.inc = base.find_name(node_name(2))->inc;
        return other;
      }(),
      net.now());
  const auto refused_at = net.now();
  asked_at.reset();
  ASSERT_TRUE(net.run_until([&] { return asked_at.has_value(); }, seconds(5)));
  EXPECT_GE(*asked_at - refused_at, heartbeat) << "the other one has its time";
  EXPECT_LE(*asked_at - refused_at, in_time);
}

/// Restarted masters asked a node to join before the node knew the view that has their former
/// processes. Once it knows this view, the former processes count as dead.
TEST(membership_healing, who_asked_before_the_view_was_known_has_replaced_its_master) {
  auto net = converged_net(3);
  auto base = net.view_of(2);
  base.version += 1;
  net.restart(0);
  net.restart(1);
  net.restart(2);
  std::find_if(base.members.begin(), base.members.end(), [](const member& m) {
    return m.name == node_name(3);
  })->inc = net.at(2).self.inc;
  for (std::size_t i : {0, 1})
    net.machine(2).on_packet(join_packet{net.at(i).self, {}, false, false}, net.now());
  const auto actions = net.machine(2).on_packet(view_packet{base}, net.now());
  EXPECT_TRUE(std::any_of(actions.begin(), actions.end(), [](const action& done) {
    const auto* out = std::get_if<send_packet>(&done);
    return out != nullptr && std::holds_alternative<prepare_packet>(out->body);
  })) << "it is the first master that lives";
}

/// The leader refuses an applicant that it cannot take in now, and takes it in as soon as it can.
TEST(membership_healing, who_was_refused_while_the_view_stood_still_is_in_the_next_one) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    auto net = converged_net(5, seed);
    net.reachable = [](std::size_t a, std::size_t b) { return (a % 5 == 0) == (b % 5 == 0); };
    net.run_for(expiry + heartbeat);
    ASSERT_TRUE(net.machine(0).frozen(net.now()));
    auto late = net.start(node_name(6), 6, {membership_net::address(1)});
    ASSERT_TRUE(net.run_until([&] { return !net.at(late).refusals.empty(); }, seconds(1)));
    net.reachable = [late](std::size_t from, std::size_t to) {
      // From now on packets of node `late` do not reach the leader, so it cannot ask again.
      return from != late || to != 0;
    };
    ASSERT_TRUE(net.run_until([&] { return net.converged(); }, in_time)) << seed;
  }
}

/// When a new view lacks a member that lives, this member must get the view at once, so that it can
/// join again.
TEST(membership_healing, who_is_left_out_hears_of_it_at_once) {
  auto net = converged_net(5);
  net.reachable = [](std::size_t from, std::size_t) { return from != 4; };
  ASSERT_TRUE(net.run_until([&] { return net.view_of(0).members.size() == 4; }, seconds(5)));
  net.run_for(milliseconds(20));
  EXPECT_EQ(net.machine(4).state(), membership::phase::rejoining);
}

/// A delayed join packet of a replaced process puts this process into the view in place of its
/// successor at the same address. The cluster must take the successor in again at once, and not
/// only when the former process expires.
TEST(membership_healing, who_was_pushed_out_by_its_own_past_is_back_at_once) {
  auto net = converged_net(5);
  auto past = net.at(4).self;
  bool pushed_out = false;
  net.restart(4);
  ASSERT_TRUE(net.run_until([&] { return net.converged(); }, seconds(5)));
  net.watch = [&](std::size_t, const send_packet& out) {
    if (const auto* told = std::get_if<view_packet>(&out.body))
      pushed_out = pushed_out || told->latest.find(past.inc) != nullptr;
  };
  net.machine(0).on_packet(join_packet{past, {}, false, false}, net.now());
  ASSERT_TRUE(net.run_until([&] { return pushed_out; }, seconds(1)));
  auto took = net.run_until([&] { return net.converged(); }, seconds(10));
  ASSERT_TRUE(took);
  EXPECT_LE(*took, in_time);
}

} // namespace
} // namespace peercache::discovery::membership_healing_test
