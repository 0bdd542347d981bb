#include "cli/doctor/doctor_seeds.hpp"
#include "net/socket.hpp"
#include "tests/cli/doctor/doctor_checks.hpp"

#include <gtest/gtest.h>

namespace peercache::cli::doctor_seeds_test {

namespace {

seed_facts answering() {
  seed_facts facts;
  facts.address = "10.0.0.2:31998";
  facts.node = "host-2";
  facts.version = "1.2.3";
  return facts;
}

check judged(const seed_facts& facts) {
  return judge_seed(facts, "1.2.3");
}

seed_facts failing(errc code) {
  auto facts = answering();
  facts.fault = error{code, "some words"};
  return facts;
}

config::node_config node_at(std::uint16_t control) {
  config::node_config config;
  config.node.name = "node-1";
  config.cluster.name = "c";
  config.net.bind = config.net.advertise = "127.0.0.1";
  config.net.control_port = control;
  return config;
}

} // namespace

TEST(doctor_seeds, a_node_of_the_cluster_is_named_with_its_version) {
  EXPECT_EQ(judged(answering()).given, verdict::ok);
  EXPECT_EQ(judged(answering()).found, "node 'host-2' answers, version 1.2.3");
  EXPECT_EQ(judged(answering()).id, "seed");
}

TEST(doctor_seeds, each_way_to_fail_has_its_own_fix) {
  EXPECT_EQ(judged(failing(errc::unreachable)).given, verdict::warn)
      << "the first node of a cluster has no other";
  EXPECT_TRUE(contains(judged(failing(errc::unreachable)).fix, "start the node there"));
  EXPECT_EQ(judged(failing(errc::incompatible)).given, verdict::fail);
  EXPECT_TRUE(contains(judged(failing(errc::incompatible)).fix, "cluster.name"));
  EXPECT_EQ(judged(failing(errc::timed_out)).given, verdict::fail);
  EXPECT_TRUE(contains(judged(failing(errc::timed_out)).fix, "net.control_port"));
  auto other = failing(errc::unreachable);
  other.listens = true;
  EXPECT_EQ(judged(other).given, verdict::fail);
  EXPECT_TRUE(contains(judged(other).fix, "net.control_port"));
  auto unknown = failing(errc::unreachable);
  unknown.resolved = false;
  EXPECT_EQ(judged(unknown).given, verdict::fail);
  EXPECT_TRUE(contains(judged(unknown).fix, "DNS"));
}

TEST(doctor_seeds, a_namesake_a_clock_and_a_version_are_said) {
  auto facts = answering();
  facts.version = "1.2.4";
  EXPECT_EQ(judged(facts).given, verdict::warn);
  EXPECT_TRUE(contains(judged(facts).found, "this is 1.2.3"));
  facts.ahead_ms = -clock_difference_ms_most;
  EXPECT_FALSE(contains(judged(facts).found, "clock"));
  facts.ahead_ms = -3'600'000;
  EXPECT_TRUE(contains(judged(facts).found, "its clock is 3600.0 s behind this machine's"));
  facts.namesake = "10.0.0.9:31998";
  EXPECT_EQ(judged(facts).given, verdict::fail);
  EXPECT_TRUE(contains(judged(facts).found, "a node of this name lives at 10.0.0.9:31998"));
}

TEST(doctor_seeds, where_nobody_listens_the_connection_is_refused) {
  std::uint16_t port = 0;
  {
    const auto listener = net::listen_on("127.0.0.1", 0, 1);
    ASSERT_TRUE(listener);
    port = net::local_port(*listener);
  }
  const auto facts = gather_seed_facts(node_at(1), {"127.0.0.1", port});
  ASSERT_TRUE(facts.fault);
  EXPECT_EQ(facts.fault->code, errc::unreachable) << facts.fault->message;
  EXPECT_FALSE(facts.listens);
}

TEST(doctor_seeds, who_takes_the_connection_and_says_nothing_is_no_node) {
  const auto listener = net::listen_on("127.0.0.1", 0, 1);
  ASSERT_TRUE(listener);
  const auto facts = gather_seed_facts(node_at(1), {"127.0.0.1", net::local_port(*listener)});
  ASSERT_TRUE(facts.fault);
  EXPECT_TRUE(facts.listens);
  EXPECT_EQ(judged(facts).given, verdict::fail) << facts.fault->message;
}

TEST(doctor_seeds, a_nodes_own_address_is_no_fault_unless_it_is_the_only_seed) {
  auto config = node_at(31'998);
  config.discovery.seeds = {{"127.0.0.1", 31'998}, {"127.0.0.2", 31'998}};
  EXPECT_TRUE(gather_seed_facts(config, config.discovery.seeds[0]).own);
  EXPECT_EQ(judged(gather_seed_facts(config, config.discovery.seeds[0])).given, verdict::info);
  config.discovery.seeds.pop_back();
  const auto alone = judged(gather_seed_facts(config, config.discovery.seeds[0]));
  EXPECT_EQ(alone.given, verdict::warn);
  EXPECT_TRUE(contains(alone.found, "founds a cluster of one")) << alone.found;
  EXPECT_FALSE(gather_seed_facts(node_at(31'998), {"127.0.0.1", 1}).own);
}

TEST(doctor_seeds, a_name_without_an_address_is_said) {
  const auto facts = gather_seed_facts(node_at(1), {"no-such-host.invalid", 31'998});
  EXPECT_FALSE(facts.resolved);
  EXPECT_EQ(judged(facts).given, verdict::fail);
}

} // namespace peercache::cli::doctor_seeds_test
