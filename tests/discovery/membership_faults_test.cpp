#include "discovery/membership.hpp"

#include "common/limits.hpp"
#include "tests/support/membership_net.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>

namespace peercache::discovery {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using tests::converged_net;
using tests::membership_net;
using tests::node_name;

constexpr auto heartbeat = milliseconds(500);
constexpr auto expiry = seconds(2);
/// How much later than a deadline something may happen: ticks are 50 ms apart, and packets take up
/// to 5 ms, a few of them in a row.
constexpr auto slack = milliseconds(150);

TEST(membership, the_next_master_takes_over_a_dead_leader_with_a_higher_term) {
  auto net = converged_net(5);
  auto term = net.view_of(1).term;
  net.kill(0);
  auto took = net.run_until([&] { return net.converged(); }, seconds(10));
  ASSERT_TRUE(took);
  EXPECT_LE(*took, expiry + heartbeat);
  EXPECT_TRUE(net.machine(1).leads());
  EXPECT_GT(net.view_of(1).term, term);
  EXPECT_EQ(net.view_of(4).masters,
            (std::vector<std::string>{node_name(2), node_name(3), node_name(4)}));
}

TEST(membership, a_promoted_master_expels_nobody_who_lives) {
  auto net = converged_net(8);
  net.run_for(seconds(30));
  const auto& adopted = net.at(7).adopted;
  auto before = adopted.size();
  for (std::size_t dead : {0, 1, 2, 3}) {
    net.kill(dead);
    ASSERT_TRUE(net.run_until([&] { return net.converged(); }, seconds(10)));
  }
  for (auto i = before; i < adopted.size(); ++i)
    for (std::size_t alive : {4, 5, 6})
      EXPECT_NE(adopted[i].find(net.at(alive).self.inc), nullptr) << "view " << i;
}

TEST(membership, a_plain_member_that_leads_at_once_expels_nobody_who_lives) {
  membership_net net(1);
  net.max_masters = 1;
  for (std::size_t i = 1; i <= 4; ++i)
    net.start(node_name(i), i, {membership_net::address(1)});
  ASSERT_TRUE(net.run_until([&] { return net.converged(); }, seconds(5)));
  net.run_for(seconds(30));
  net.leave(0);
  // Until node 0 left, only that node got heartbeats, being the only master; so node 1 has heard no
  // other member yet.
  net.run_for(seconds(10));
  EXPECT_TRUE(net.converged());
  EXPECT_TRUE(net.machine(1).leads());
  const auto& adopted = net.at(1).adopted;
  EXPECT_EQ(adopted.back().members.size(), 3u);
  EXPECT_EQ(adopted[adopted.size() - 2].members.size(), 4u) << "somebody was expelled in between";
}

TEST(membership, a_member_that_slept_while_all_masters_were_replaced_finds_back) {
  auto net = converged_net(7);
  net.freeze(6);
  ASSERT_TRUE(net.run_until([&] { return net.converged(); }, seconds(10)));
  for (std::size_t dead : {0, 1, 2}) {
    net.kill(dead);
    ASSERT_TRUE(net.run_until([&] { return net.converged(); }, seconds(10)));
  }
  // When node 6 thaws, all masters of its view and its seed are dead.
  net.thaw(6);
  EXPECT_TRUE(net.run_until([&] { return net.converged(); }, seconds(10)));
}

TEST(membership, a_member_that_restarts_comes_back_though_its_only_seed_is_gone) {
  auto net = converged_net(6);
  net.kill(5);
  ASSERT_TRUE(net.run_until([&] { return net.converged(); }, seconds(10)));
  // Node 0, the leader, expelled node 5 and now leaves. The masters after it must know node 5, too,
  // to let it come back.
  net.leave(0);
  net.run_for(milliseconds(50));
  net.kill(0);
  ASSERT_TRUE(net.run_until([&] { return net.converged(); }, seconds(10)));
  EXPECT_EQ(net.view_of(1).members.size(), 4u);
  net.restart(5);
  auto took = net.run_until([&] { return net.converged(); }, seconds(10));
  ASSERT_TRUE(took);
  EXPECT_LE(*took, 2 * heartbeat + slack) << "one of the two is asked with every heartbeat";
  EXPECT_EQ(net.view_of(5).members.size(), 5u);
}

TEST(membership, a_node_that_only_hears_of_newer_views_counts_as_cut_off) {
  auto net = converged_net(5);
  const auto& master = net.at(1).self;
  const auto hears = [&](std::size_t by, std::uint64_t versions_ahead) {
    auto known = net.view_of(by).stamp();
    known.version += versions_ahead;
    auto at = net.now();
    for (; at < net.now() + expiry + heartbeat; at += heartbeat / 2)
      net.machine(by).on_packet(
          heartbeat_packet{control_endpoint(master), master.inc, known, true, {}}, at);
    return !net.machine(by).isolated(at);
  };
  EXPECT_TRUE(hears(3, 0));
  EXPECT_FALSE(hears(4, 1)) << "it would never ask the others, and never learn that it is out";
}

TEST(membership, a_master_looks_for_the_last_former_members_one_a_heartbeat) {
  auto net = converged_net(1);
  auto& machine = net.machine(0);
  const auto alone = machine.current();
  auto full = alone;
  full.version += 1;
  for (std::size_t i = 0; i < 100; ++i) {
    member m;
    m.name = "gone" + std::to_string(i);
    m.id = node_id_of(m.name);
    m.inc = {1, i + 1};
    m.host = "10.0.1." + std::to_string(i);
    full.members.push_back(m);
  }
  std::sort(full.members.begin(), full.members.end(),
            [](const member& a, const member& b) { return a.id < b.id; });
  auto after = alone;
  after.version += 2;
  machine.on_packet(view_packet{full}, net.now());
  machine.on_packet(view_packet{after}, net.now());
  std::map<endpoint, int> asked;
  for (std::size_t i = 1; i <= 2 * limits::former_members_max; ++i)
    for (const auto& a : machine.tick(net.now() + i * heartbeat))
      if (const auto* out = std::get_if<send_packet>(&a))
        ++asked[out->to];
  EXPECT_EQ(asked.size(), limits::former_members_max);
  for (const auto& [at, times] : asked)
    EXPECT_EQ(times, 2) << at.host;
}

TEST(membership, a_leader_whose_sockets_lost_everything_does_not_judge_by_its_own_pause) {
  auto net = converged_net(4);
  for (const auto& a : net.machine(0).tick(net.now() + seconds(30)))
    EXPECT_FALSE(std::holds_alternative<adopt_view>(a));
  EXPECT_EQ(net.view_of(0).members.size(), 4u);
}

TEST(membership, a_plain_member_that_heard_of_a_vanished_cluster_finds_back) {
  auto net = converged_net(5);
  auto ghost = net.view_of(4);
  ghost.term += 5;
  std::erase_if(ghost.members, [](const member& m) { return m.name != node_name(1); });
  ghost.members[0].inc = {6, 6};
  ghost.masters = {node_name(1)};
  net.machine(4).on_packet(view_packet{ghost}, net.now());
  ASSERT_TRUE(net.run_until([&] { return net.converged(); }, seconds(15)));
  net.run_for(seconds(10));
  EXPECT_TRUE(net.converged());
  EXPECT_GT(net.view_of(4).term, ghost.term);
}

TEST(membership, a_leader_takes_in_nobody_who_knows_a_newer_cluster_but_asks_about_it) {
  auto net = converged_net(3);
  auto joining = net.at(2).self;
  joining.inc = {6, 6};
  auto newer = net.view_of(0).stamp();
  newer.term += 1;
  auto actions = net.machine(0).on_packet(join_packet{joining, newer, true, false}, net.now());
  ASSERT_EQ(actions.size(), 1u);
  const auto* out = std::get_if<send_packet>(&actions[0]);
  ASSERT_NE(out, nullptr);
  EXPECT_EQ(out->to, control_endpoint(joining));
  const auto* answer = std::get_if<heartbeat_answer_packet>(&out->body);
  ASSERT_NE(answer, nullptr);
  EXPECT_EQ(answer->known, net.view_of(0).stamp());
}

/// A node of a cluster hears of a newer cluster and asks to join it, but that cluster dies before
/// it answers. The node's own cluster must go on.
TEST(membership, a_newer_cluster_that_vanished_does_not_stop_the_old_one) {
  auto net = converged_net(3);
  auto ghost = net.view_of(0);
  ghost.term += 5;
  ghost.members = {{.name = "ghost",
                    .id = node_id_of("ghost"),
                    .inc = {6, 6},
                    .host = "10.0.0.66",
                    .control_port = 31998}};
  ghost.masters = {"ghost"};
  for (std::size_t i : {0, 1, 2})
    net.machine(i).on_packet(view_packet{ghost}, net.now());
  EXPECT_EQ(net.machine(0).state(), membership::phase::rejoining);
  EXPECT_EQ(net.view_of(0).members.size(), 3u) << "the last view stays";
  ASSERT_TRUE(net.run_until([&] { return net.converged(); }, seconds(10)));
  EXPECT_GT(net.view_of(2).term, ghost.term);
}

TEST(membership, a_frozen_member_is_expelled_and_joins_again_with_the_same_incarnation) {
  auto net = converged_net(4);
  auto inc = net.at(3).self.inc;
  net.freeze(3);
  ASSERT_TRUE(net.run_until([&] { return net.converged(); }, seconds(5)));
  EXPECT_EQ(net.view_of(0).find(inc), nullptr);
  net.run_for(seconds(10));
  net.thaw(3);
  auto took = net.run_until([&] { return net.converged(); }, seconds(5));
  ASSERT_TRUE(took);
  EXPECT_LE(*took, 2 * heartbeat);
  EXPECT_NE(net.view_of(0).find(inc), nullptr);
}

TEST(membership, a_frozen_leader_comes_back_without_expelling_anybody) {
  auto net = converged_net(4);
  auto term = net.view_of(0).term;
  net.freeze(0);
  ASSERT_TRUE(net.run_until([&] { return net.converged(); }, seconds(5)));
  EXPECT_TRUE(net.machine(1).leads());
  net.run_for(seconds(30));
  auto before = net.at(0).adopted.size();
  net.thaw(0);
  ASSERT_TRUE(net.run_until([&] { return net.converged(); }, seconds(5)));
  EXPECT_TRUE(net.machine(0).leads());
  EXPECT_GT(net.view_of(0).term, term);
  const auto& adopted = net.at(0).adopted;
  ASSERT_GT(adopted.size(), before);
  for (auto i = before; i < adopted.size(); ++i)
    EXPECT_EQ(adopted[i].members.size(), 4u) << "it judged others by the time that it slept";
}

TEST(membership, an_older_view_is_ignored) {
  auto net = converged_net(3);
  auto newest = net.view_of(2);
  auto older = newest;
  older.version -= 1;
  older.members.pop_back();
  older.masters = choose_masters(older.members, membership_net::address(1), 3);
  auto& machine = net.machine(2);
  EXPECT_TRUE(machine.on_packet(view_packet{older}, net.now()).empty());
  auto older_term = older;
  older_term.term -= 1;
  older_term.version += 100;
  EXPECT_TRUE(machine.on_packet(view_packet{older_term}, net.now()).empty());
  EXPECT_EQ(machine.current(), newest);
}

TEST(membership, a_view_without_this_node_is_not_adopted_but_makes_it_join) {
  auto net = converged_net(3);
  auto mine = net.view_of(2);
  auto without = mine;
  without.version += 1;
  std::erase_if(without.members, [&](const member& m) { return m.inc == net.at(2).self.inc; });
  without.masters = choose_masters(without.members, membership_net::address(1), 3);
  auto& machine = net.machine(2);
  auto actions = machine.on_packet(view_packet{without}, net.now());
  EXPECT_EQ(machine.current(), mine);
  EXPECT_EQ(machine.state(), membership::phase::rejoining);
  ASSERT_FALSE(actions.empty());
  for (const auto& a : actions) {
    const auto* out = std::get_if<send_packet>(&a);
    ASSERT_NE(out, nullptr);
    const auto* join = std::get_if<join_packet>(&out->body);
    ASSERT_NE(join, nullptr);
    EXPECT_EQ(join->who.inc, net.at(2).self.inc);
    EXPECT_TRUE(join->was_member);
  }
}

TEST(membership, a_restart_of_the_head_does_not_split_the_cluster) {
  for (auto pause : {milliseconds(0), milliseconds(700), milliseconds(1900), milliseconds(10000)}) {
    auto net = converged_net(4);
    auto old_term = net.view_of(1).term;
    net.kill(0);
    net.run_for(pause);
    auto views_before = net.at(0).adopted.size();
    net.restart(0);
    auto took = net.run_until([&] { return net.converged(); }, seconds(10));
    ASSERT_TRUE(took) << pause.count();
    EXPECT_LE(*took, 3 * heartbeat) << pause.count();
    for (auto i = views_before; i < net.at(0).adopted.size(); ++i)
      EXPECT_GT(net.at(0).adopted[i].term, old_term) << "founded a cluster of its own";
    EXPECT_TRUE(net.machine(0).leads());
  }
}

TEST(membership, two_halves_become_one_view_after_the_partition) {
  auto net = converged_net(6);
  net.reachable = [](std::size_t a, std::size_t b) { return (a < 2) == (b < 2); };
  net.run_for(seconds(20));
  EXPECT_EQ(net.view_of(0).members.size(), 2u) << "two of the three masters are a majority";
  EXPECT_FALSE(net.view_of(0).fragment());
  EXPECT_EQ(net.view_of(5).members.size(), 4u);
  EXPECT_EQ(net.view_of(5).masters_lost(), 2u) << "four members with one master are none";
  net.reachable = [](auto, auto) { return true; };
  auto took = net.run_until([&] { return net.converged(); }, seconds(20));
  ASSERT_TRUE(took);
  EXPECT_LE(*took, 3 * heartbeat);
}

/// Checks the views that all nodes adopted: no two different ones have the same stamp, and each has
/// masters and a leader.
void check_safety(const membership_net& net) {
  std::map<view_stamp, view> by_stamp;
  for (std::size_t i = 0; i < net.size(); ++i) {
    const auto& adopted = net.at(i).adopted;
    for (std::size_t k = 0; k < adopted.size(); ++k) {
      auto [known, fresh] = by_stamp.emplace(adopted[k].stamp(), adopted[k]);
      EXPECT_EQ(known->second, adopted[k]) << "two views with one stamp";
      ASSERT_FALSE(adopted[k].masters.empty());
      EXPECT_NE(adopted[k].leader(), nullptr);
    }
  }
}

TEST(membership, random_faults_heal_for_fifty_seeds) {
  milliseconds slowest{0};
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    membership_net net(seed);
    std::vector<endpoint> seeds{membership_net::address(1), membership_net::address(2)};
    auto count = 3 + net.random() % 6;
    for (std::size_t i = 1; i <= count; ++i)
      net.start(node_name(i), i, seeds);
    net.net = {0.2, milliseconds(1), milliseconds(200)};
    for (int fault = 0; fault < 30; ++fault) {
      auto i = net.random() % count;
      auto kind = net.random() % 6;
      auto& n = net.at(i);
      if (!n.machine)
        net.restart(i);
      else if (n.frozen)
        net.thaw(i);
      else if (kind == 0)
        net.kill(i, net.random() % 2 == 0);
      else if (kind == 1)
        net.freeze(i);
      else if (kind == 2)
        net.reachable = [split = net.random() % count](std::size_t a, std::size_t b) {
          return (a < split) == (b < split);
        };
      else if (kind == 3)
        net.reachable = [deaf = i](std::size_t, std::size_t to) { return to != deaf; };
      else
        net.reachable = [](auto, auto) { return true; };
      net.run_for(milliseconds(net.random() % 3000));
    }
    net.net = {};
    net.reachable = [](auto, auto) { return true; };
    for (std::size_t i = 0; i < count; ++i) {
      if (!net.at(i).machine)
        net.restart(i);
      else if (net.at(i).frozen)
        net.thaw(i);
    }
    auto took = net.run_until([&] { return net.converged(); }, seconds(30));
    ASSERT_TRUE(took);
    slowest = std::max(slowest, *took);
    net.run_for(seconds(5));
    EXPECT_TRUE(net.converged()) << "did not stay together";
    check_safety(net);
  }
  std::printf("[ measured ] slowest heal of 50 seeds: %lld ms\n",
              static_cast<long long>(slowest.count()));
}

} // namespace
} // namespace peercache::discovery
