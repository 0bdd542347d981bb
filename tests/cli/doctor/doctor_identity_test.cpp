#include "cli/doctor/check_ids.hpp"
#include "cli/doctor/doctor_identity.hpp"
#include "tests/cli/doctor/doctor_checks.hpp"

#include <gtest/gtest.h>

namespace peercache::cli::doctor_identity_test {

namespace {

config::node_config node() {
  config::node_config config;
  config.node.name = "host7";
  config.cluster.name = "c";
  config.net.advertise = "127.0.0.1";
  return config;
}

check judged(net::tls_identity who) {
  return judge_identity(node(), result<net::tls_identity>(std::move(who)));
}

} // namespace

TEST(doctor_identity, without_tls_nothing_is_missed) {
  const auto given = judge_identity(node(), gather_identity(node()));
  EXPECT_EQ(given.given, verdict::info);
  EXPECT_EQ(given.id, check_ids::tls);
}

TEST(doctor_identity, files_that_cannot_be_read_fail) {
  auto config = node();
  config.tls.certificate = config.tls.key = config.tls.authority = "/nowhere/file.pem";
  const auto given = judge_identity(config, gather_identity(config));
  EXPECT_EQ(given.given, verdict::fail);
  EXPECT_TRUE(contains(given.found, "/nowhere/file.pem")) << given.found;
  EXPECT_TRUE(contains(given.fix, "peercache ca issue node host7")) << given.fix;
}

TEST(doctor_identity, only_the_certificate_of_this_very_node_is_fit) {
  EXPECT_EQ(judged({"c", net::tls_role::node, "host7"}).given, verdict::ok);
  const auto others = judged({"c", net::tls_role::node, "host8"});
  EXPECT_EQ(others.given, verdict::fail);
  EXPECT_TRUE(contains(others.found, "that of the node 'host8'")) << others.found;
  EXPECT_TRUE(contains(others.fix, "node.name = \"host8\"")) << others.fix;
  const auto client = judged({"c", net::tls_role::client, "host7"});
  EXPECT_EQ(client.given, verdict::fail);
  EXPECT_TRUE(contains(client.found, "is not a node's")) << client.found;
}

TEST(doctor_identity, an_advertised_name_without_an_address_fails) {
  auto config = node();
  EXPECT_EQ(look_at_advertise(config).given, verdict::ok);
  config.net.advertise = "no such host";
  const auto given = look_at_advertise(config);
  EXPECT_EQ(given.given, verdict::fail);
  EXPECT_EQ(given.id, check_ids::advertise);
  EXPECT_TRUE(contains(given.found, "no such host")) << given.found;
  EXPECT_TRUE(contains(given.fix, "net.advertise")) << given.fix;
}

} // namespace peercache::cli::doctor_identity_test
