#include "client/session/own_address.hpp"

#include "tests/link/named_members.hpp"

#include <gtest/gtest.h>

namespace peercache::client::own_address_test {
namespace {

const std::string given = "172.17.0.5";
const std::string advertised = "10.0.0.7";

discovery::member node_of(std::uint64_t number) {
  discovery::member node;
  node.name = "node-" + std::to_string(number);
  node.id = node_id_of(node.name);
  node.inc = {number, 1};
  node.host = advertised;
  return node;
}

TEST(own_address, the_address_that_was_given_is_tried_first_and_kept_while_it_answers) {
  own_address address(given);
  EXPECT_EQ(address.to_dial(node_of(1), true).host, given);
  EXPECT_FALSE(address.heard(node_of(1).inc, true));
  EXPECT_EQ(address.host_of(node_of(1)), given);
  EXPECT_FALSE(address.heard(node_of(1).inc, false)) << "a connection that stood has ended";
  EXPECT_EQ(address.to_dial(node_of(1), true).host, given);
}

TEST(own_address, where_nobody_answers_at_it_the_one_that_the_node_advertises_is_tried_at_once) {
  own_address address(given);
  address.to_dial(node_of(1), true);
  const auto other = address.heard(node_of(1).inc, false);
  ASSERT_TRUE(other);
  EXPECT_EQ(other->host, advertised);
  EXPECT_EQ(other->inc, node_of(1).inc);
  EXPECT_FALSE(address.heard(node_of(1).inc, true));
  EXPECT_EQ(address.host_of(node_of(1)), advertised);
  EXPECT_EQ(address.to_dial(node_of(1), true).host, advertised) << "after a loss of the connection";
}

TEST(own_address, an_attempt_tries_each_address_once) {
  own_address address(given);
  address.to_dial(node_of(1), true);
  EXPECT_TRUE(address.heard(node_of(1).inc, false));
  EXPECT_FALSE(address.heard(node_of(1).inc, false)) << "the caller is told that none answers";
  EXPECT_EQ(address.to_dial(node_of(1), true).host, advertised);
  const auto other = address.heard(node_of(1).inc, false);
  ASSERT_TRUE(other);
  EXPECT_EQ(other->host, given);
}

TEST(own_address, of_the_next_node_the_address_that_was_given_is_tried_first_again) {
  own_address address(given);
  address.to_dial(node_of(1), true);
  EXPECT_TRUE(address.heard(node_of(1).inc, false));
  EXPECT_EQ(address.to_dial(node_of(2), true).host, given);
  EXPECT_FALSE(address.heard(node_of(1).inc, false)) << "news of a node that is gone";
}

TEST(own_address, a_node_that_was_never_dialled_here_is_where_it_says) {
  own_address address(given);
  EXPECT_EQ(address.host_of(node_of(1)), advertised);
  address.to_dial(node_of(1), true);
  EXPECT_EQ(address.host_of(node_of(1)), given);
  EXPECT_EQ(address.host_of(node_of(2)), advertised)
      << "the next process, which others have told of";
}

TEST(own_address, the_topology_says_where_a_connection_stands_that_was_made_without_a_session) {
  const auto cluster = link::topology_of({{node_of(1), {}}, {node_of(2), {}}}, 1);
  const auto said = [&](const own_address& address, std::uint64_t number) {
    return address.as_reached(cluster)->find(node_of(number).inc)->self.host;
  };
  own_address address(given);
  // The client hears of its host's node from others, before it has a session.
  EXPECT_EQ(address.to_dial(node_of(1), false).host, advertised);
  EXPECT_EQ(said(address, 1), advertised);
  EXPECT_EQ(address.to_dial(node_of(1), true).host, given);
  EXPECT_EQ(said(address, 1), given);
  EXPECT_EQ(said(address, 2), advertised) << "another host's node";
  // The session has ended, and so has the connection; both are made again.
  EXPECT_FALSE(address.heard(node_of(1).inc, true));
  EXPECT_FALSE(address.heard(node_of(1).inc, false));
  EXPECT_EQ(address.to_dial(node_of(1), false).host, given);
  EXPECT_EQ(said(address, 1), given);
  const auto other = address.heard(node_of(1).inc, false);
  ASSERT_TRUE(other);
  EXPECT_EQ(other->host, advertised);
  EXPECT_EQ(said(address, 1), advertised);
  EXPECT_EQ(address.to_dial(node_of(1), true).host, advertised);
}

TEST(own_address, other_members_and_loopback_addresses_change_nothing) {
  own_address address(given);
  address.to_dial(node_of(1), true);
  EXPECT_FALSE(address.heard(node_of(3).inc, false));
  EXPECT_EQ(address.host_of(node_of(1)), given);
  for (const auto* host : {"127.0.0.1", "::1", "localhost", "host-17", "10.0.0.7"}) {
    own_address plain(host);
    EXPECT_EQ(plain.to_dial(node_of(1), true).host, advertised) << host;
    EXPECT_FALSE(plain.heard(node_of(1).inc, false)) << host;
  }
}

} // namespace
} // namespace peercache::client::own_address_test
