// Tests of what a node knows of all nodes of its cluster, and of what /api/cluster says of them.

#include "actors/monitoring/cluster_overview.hpp"
#include "actors/monitoring/http_board.hpp"
#include "actors/monitoring/overview_json.hpp"
#include "common/fault_ids.hpp"
#include "tests/link/named_members.hpp"
#include "tests/support/actor_fixture.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <utility>

namespace peercache::actors {
namespace {

using metrics::metric;
using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

class cluster_overview_test : public testing::Test {
protected:
  static constexpr std::uint64_t today = 1'800'000'000'000;

  /// Returns a topology in which no member has a connection, although connecting to each was tried.
  topology_ptr topology(const std::vector<discovery::member>& all, std::uint64_t version = 1) {
    std::vector<std::pair<discovery::member, directory_actor>> nodes;
    for (const auto& member : all)
      nodes.emplace_back(member, directory_actor{});
    auto made = std::make_shared<link::topology>(*topology_of(std::move(nodes), version));
    for (auto& peer : made->peers)
      peer.tried = true;
    return made;
  }

  /// Returns a topology in which all members have connections.
  topology_ptr linked(const std::vector<discovery::member>& all, std::uint64_t version = 1) {
    auto made = std::make_shared<link::topology>(*topology(all, version));
    for (auto& peer : made->peers)
      peer.directory = caf::actor_cast<directory_actor>(stranger);
    return made;
  }

  node_status status_of_node(const discovery::member& who) {
    node_status said;
    said.self = who;
    said.version = "1.2";
    said.data_plane = "tcp: data_plane = tcp";
    said.samples.set(metric::ready, 1);
    said.samples.set(metric::view_term, 1);
    said.samples.set(metric::view_version, 1);
    said.unix_ms = today;
    return said;
  }

  void answer(const discovery::member& who, node_status said) {
    seen.answered(who.inc, now, today, std::move(said));
  }
  void answer(const discovery::member& who) { answer(who, status_of_node(who)); }
  nlohmann::json json() { return nlohmann::json::parse(overview_json(seen, now, today)); }

  test::actor_config config;
  caf::actor_system system{config};
  caf::scoped_actor stranger{system, true}; ///< Stands for actors of other nodes.
  const discovery::member a = member_named("a", 1), b = member_named("b", 2);
  cluster_overview::time_point now{1h};
  cluster_overview seen{"prod", a};
};

TEST_F(cluster_overview_test, a_node_in_no_cluster_yet_shows_itself) {
  EXPECT_FALSE(seen.complete());
  EXPECT_THAT(seen.due(now, today), ElementsAre(a.inc));
  EXPECT_FALSE(seen.complete()) << "it has not answered";
  auto said = status_of_node(a);
  said.samples.set(metric::ready, 0);
  said.unready_reason = "joining: no \"seed\" answers";
  answer(a, said);
  ASSERT_TRUE(seen.complete());
  const auto shown = json();
  EXPECT_EQ(shown["format"], api_format);
  EXPECT_EQ(shown["cluster"], "prod");
  EXPECT_EQ(shown["asked"], "a");
  ASSERT_EQ(shown["nodes"].size(), 1u);
  EXPECT_EQ(shown["nodes"][0]["in_view"], false);
  EXPECT_EQ(shown["nodes"][0]["unready_reason"], "joining: no \"seed\" answers");
  EXPECT_EQ(shown["faults"][0]["id"], fault_ids::not_in_cluster);
}

TEST_F(cluster_overview_test, each_node_is_asked_once_a_second_and_never_twice_at_a_time) {
  EXPECT_THAT(seen.due(now, today), ElementsAre(a.inc));
  now += 5s;
  EXPECT_THAT(seen.due(now, today), IsEmpty()) << "its answer is still awaited";
  answer(a);
  EXPECT_THAT(seen.due(now, today), ElementsAre(a.inc));
  answer(a);
  now += cluster_overview::ask_every - 1ms;
  EXPECT_THAT(seen.due(now, today), IsEmpty());
  now += 1ms;
  EXPECT_THAT(seen.due(now, today), ElementsAre(a.inc));
}

/// The cluster has more nodes than the overview asks one by one within a second.
TEST_F(cluster_overview_test, of_many_nodes_each_is_asked_in_its_turn) {
  std::vector<discovery::member> many{a};
  for (std::uint64_t i = 2; i <= 300; ++i)
    many.push_back(member_named("n" + std::to_string(i), i));
  seen.take(linked(many));
  for (int turn = 0; turn < 5; ++turn, now += 250ms) {
    const auto whom = seen.due(now, today);
    EXPECT_EQ(whom.size(), cluster_overview::asked_per_turn) << turn;
    for (const auto& inc : whom)
      seen.answered(inc, now, today, status_of_node(*seen.view().find(inc)));
  }
  EXPECT_TRUE(seen.complete());
}

/// The overview may already have sent its next question when the answer to the previous one comes.
/// If it compared the answer's clock with the time of the next question, this clock would seem
/// wrong.
TEST_F(cluster_overview_test, an_answer_keeps_the_time_of_its_own_question) {
  seen.take(topology({a}));
  seen.due(now, today);
  answer(a, status_of_node(a));
  now += 1s;
  seen.due(now, today + 1000);
  ASSERT_EQ(seen.answers().size(), 1u);
  EXPECT_EQ(seen.answers().front().asked_ms, today);
  EXPECT_EQ(seen.answers().front().answered_ms, today);
}

TEST_F(cluster_overview_test, a_member_without_a_connection_is_a_fault_and_keeps_its_old_numbers) {
  seen.take(topology({a, b}));
  EXPECT_THAT(seen.due(now, today), ElementsAre(a.inc)) << "there is no connection to b";
  answer(a);
  answer(b); // Node b answers by a connection that has just been lost.
  now += 7s;
  EXPECT_THAT(seen.due(now, today), ElementsAre(a.inc));
  answer(a);
  const auto shown = json();
  const auto& silent = shown["nodes"][1];
  EXPECT_EQ(silent["name"], "b");
  EXPECT_EQ(silent["reachable"], false);
  EXPECT_EQ(silent["state"], "unreachable");
  EXPECT_EQ(silent["age_ms"], 7000);
  EXPECT_EQ(silent["version"], "1.2");
  EXPECT_EQ(shown["nodes"][0]["reachable"], true);
  ASSERT_EQ(shown["faults"].size(), 1u);
  EXPECT_EQ(shown["faults"][0]["id"], fault_ids::node_silent);
  EXPECT_EQ(shown["faults"][0]["node"], "b");
}

TEST_F(cluster_overview_test, a_new_view_is_no_fault_of_who_was_asked_before_it) {
  seen.take(linked({a}));
  seen.due(now, today);
  seen.take(linked({a, b}, 2));
  answer(a);
  EXPECT_THAT(seen.due(now, today), ElementsAre(b.inc));
  auto said = status_of_node(b);
  said.samples.set(metric::view_version, 2);
  said.samples.set(metric::links, 1);
  answer(b, said);
  EXPECT_THAT(json()["faults"], IsEmpty()) << "a was asked by the view before";
  now += 1s;
  EXPECT_THAT(seen.due(now, today), UnorderedElementsAre(a.inc, b.inc));
  answer(a);
  answer(b, said);
  EXPECT_EQ(json()["faults"][0]["id"], fault_ids::view_differs);
}

TEST_F(cluster_overview_test, who_has_just_joined_is_not_silent_before_it_was_tried) {
  auto joined = std::make_shared<link::topology>(*topology({a, b}));
  joined->view.masters = {"a", "b", "c"};
  for (auto& peer : joined->peers)
    peer.tried = peer.self.inc == a.inc;
  seen.take(joined);
  EXPECT_THAT(seen.due(now, today), ElementsAre(a.inc));
  answer(a);
  ASSERT_TRUE(seen.complete());
  EXPECT_THAT(json()["faults"], IsEmpty());
  EXPECT_EQ(json()["nodes"][1]["reachable"], false);
  seen.take(linked({a, b}));
  EXPECT_THAT(json()["faults"], IsEmpty()) << "it was not asked yet";
  EXPECT_THAT(seen.due(now, today), ElementsAre(b.inc)) << "and is asked at once";
  seen.answered(b.inc, now, today, error{errc::unreachable, "no answer"});
  EXPECT_EQ(json()["faults"][0]["id"], fault_ids::node_silent);
}

TEST_F(cluster_overview_test, who_is_gone_is_named_and_forgotten_answers_do_not_come_back) {
  seen.take(topology({a, b}));
  seen.due(now, today);
  answer(b);
  auto next = std::make_shared<link::topology>(*topology({a}, 2));
  next->view.gone.push_back({"b", "10.0.0.2", 31998, today, discovery::departure::silent});
  seen.take(next);
  answer(b); // A late answer, to a question that was asked before b was gone.
  EXPECT_EQ(seen.find(b.inc), nullptr);
  auto said = status_of_node(a);
  said.samples.set(metric::view_version, 2);
  answer(a, said);
  const auto shown = json();
  EXPECT_EQ(shown["nodes"].size(), 1u);
  EXPECT_EQ(shown["gone"][0]["name"], "b");
  EXPECT_EQ(shown["gone"][0]["why"], "silent");
  EXPECT_EQ(shown["gone"][0]["since_unix_ms"], today);
  EXPECT_EQ(shown["faults"][0]["id"], fault_ids::node_gone);
}

TEST_F(cluster_overview_test, a_node_shows_where_hits_came_from_and_why_pages_were_missed) {
  seen.due(now, today);
  auto said = status_of_node(a);
  said.samples.set(metric::hits_total, {"own_host"}, 12);
  said.samples.set(metric::hits_total, {"disk"}, 0);
  said.samples.set(metric::misses_total, {"not_found"}, 3);
  said.samples.set(metric::bytes_total, {"get", "own_host"}, 4000);
  said.samples.set(metric::bytes_total, {"get", "disk"}, 96);
  said.samples.set(metric::bytes_total, {"set", "own_host"}, 7);
  said.samples.set(metric::rdma_peer_bytes_total, {"b"}, 1e15);
  said.disk.faults.emplace_back(fault_ids::disk_slow, "slow", "");
  answer(a, said);
  const auto node = json()["nodes"][0];
  EXPECT_EQ(node["hits"], nlohmann::json({{"own_host", 12}}));
  EXPECT_EQ(node["misses"], nlohmann::json({{"not_found", 3}}));
  EXPECT_EQ(node["bytes"]["get"], 4096);
  EXPECT_EQ(node["bytes"]["set"], 7);
  EXPECT_EQ(node["peers"][0]["peer"], "b");
  EXPECT_EQ(node["peers"][0]["bytes"].dump(), "1000000000000000");
  EXPECT_EQ(node["data_plane"], "tcp");
  EXPECT_EQ(node["fault_ids"], nlohmann::json({fault_ids::disk_slow}));
}

TEST_F(cluster_overview_test, what_no_part_of_a_node_told_is_null) {
  seen.due(now, today);
  auto said = status_of_node(a);
  said.samples.set(metric::pool_pages, 3);
  said.silent = {link::node_parts::disk, link::node_parts::directory};
  answer(a, said);
  const auto node = json()["nodes"][0];
  EXPECT_EQ(node["pool"]["pages"], 3);
  EXPECT_TRUE(node["disk"]["on"].is_null());
  EXPECT_TRUE(node["disk"]["bytes_capacity"].is_null());
  EXPECT_TRUE(node["records"].is_null());
  EXPECT_EQ(node["silent"], nlohmann::json(said.silent));
}

TEST_F(cluster_overview_test, traffic_by_peer_is_that_of_rails_and_of_tcp_together) {
  seen.due(now, today);
  auto said = status_of_node(a);
  said.samples.set(metric::rdma_peer_bytes_total, {"b"}, 100);
  said.samples.set(metric::rdma_peer_reads_total, {"b"}, 2);
  said.samples.set(metric::tcp_peer_bytes_total, {"b"}, 50);
  said.samples.set(metric::tcp_peer_reads_total, {"b"}, 1);
  said.samples.set(metric::tcp_peer_errors_total, {"b"}, 4);
  said.samples.set(metric::tcp_peer_bytes_total, {"c"}, 500);
  answer(a, said);
  const auto node = json()["nodes"][0];
  EXPECT_EQ(node["peers"],
            nlohmann::json({{{"peer", "c"}, {"bytes", 500}, {"pages", 0}, {"errors", 0}},
                            {{"peer", "b"}, {"bytes", 150}, {"pages", 3}, {"errors", 4}}}));
  EXPECT_EQ(node["tcp"], nlohmann::json({{"bytes", 550}, {"pages", 1}, {"errors", 4}}));
}

TEST_F(cluster_overview_test, a_peer_that_refuses_is_named_beside_the_busiest_sixteen) {
  seen.due(now, today);
  auto said = status_of_node(a);
  for (int i = 0; i < 60; ++i)
    said.samples.set(metric::tcp_peer_bytes_total, {"busy-" + std::to_string(i)}, 1000 + i);
  said.samples.set(metric::tcp_peer_errors_total, {"refuses"}, 7);
  said.samples.set(metric::tcp_peer_errors_total, {"busy-0"}, 1);
  answer(a, said);
  const auto peers = json()["nodes"][0]["peers"];
  ASSERT_EQ(peers.size(), 18u);
  EXPECT_EQ(peers[0]["peer"], "busy-59");
  EXPECT_EQ(peers[15]["peer"], "busy-44");
  EXPECT_EQ(peers[16]["peer"], "refuses");
  EXPECT_EQ(peers[16]["errors"], 7);
  EXPECT_EQ(peers[17]["peer"], "busy-0");
}

TEST_F(cluster_overview_test, the_ring_of_two_alike_nodes_is_shared_by_both) {
  seen.take(topology({a, b}));
  seen.due(now, today);
  auto said = status_of_node(a);
  said.samples.set(metric::directory_owners, 1);
  answer(a, said);
  answer(b);
  const auto nodes = json()["nodes"];
  const double first = nodes[0]["ring_share"], second = nodes[1]["ring_share"];
  EXPECT_NEAR(first + second, 1, 1e-9);
  EXPECT_NEAR(nodes[0]["ring_to_mean"].get<double>(), 2 * first, 1e-9);
}

TEST_F(cluster_overview_test, text_that_is_no_utf8_spoils_no_answer) {
  seen.due(now, today);
  auto said = status_of_node(a);
  said.disk.why_off = "folder \xff";
  answer(a, said);
  EXPECT_EQ(json()["nodes"][0]["disk"]["why_off"], "folder \xEF\xBF\xBD");
}

TEST(http_board, an_overview_that_is_old_is_no_answer) {
  http_board board;
  const cluster_overview::time_point now{1h};
  EXPECT_EQ(answer_api(board, "cluster", {}, now).status, 202);
  EXPECT_EQ(board.looked.load(), now) << "somebody looks from now on";
  board.overview.store({"{}", now});
  EXPECT_EQ(answer_api(board, "cluster", {}, now + overview_lasts).json, "{}");
  EXPECT_EQ(answer_api(board, "cluster", {}, now + overview_lasts + 1ms).status, 202);
  EXPECT_EQ(answer_api(board, "nothing", {}, now).status, 404);
}

} // namespace
} // namespace peercache::actors
