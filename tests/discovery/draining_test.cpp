#include "discovery/hash_ring.hpp"
#include "discovery/view_codec.hpp"
#include "tests/support/membership_net.hpp"

#include <algorithm>
#include <gtest/gtest.h>
#include <random>

namespace peercache::discovery {
namespace {

using std::chrono::seconds;

/// Whether the view of every node has all nodes, and says that node `i`, and no other node, is
/// draining.
bool all_say_that_only(const tests::membership_net& net, std::size_t i) {
  if (!net.converged())
    return false;
  for (std::size_t at = 0; at < net.size(); ++at)
    for (const auto& m : net.view_of(at).members)
      if (m.draining != (i < net.size() && m.inc == net.at(i).self.inc))
        return false;
  return net.view_of(0).members.size() == net.size();
}

constexpr std::size_t nobody = 1000;

TEST(draining, a_member_that_drains_is_said_to_by_every_view_and_never_leaves) {
  for (std::size_t who : {std::size_t{0}, std::size_t{1}, std::size_t{4}}) {
    auto net = tests::converged_net(5);
    net.set_draining(who, true);
    EXPECT_TRUE(net.run_until([&] { return all_say_that_only(net, who); }, seconds(2))) << who;
    EXPECT_EQ(net.machine(who).state(), membership::phase::joined);
    net.set_draining(who, false);
    EXPECT_TRUE(net.run_until([&] { return all_say_that_only(net, nobody); }, seconds(2))) << who;
    for (const auto& view : net.at(who).adopted)
      EXPECT_NE(view.find(net.at(who).self.inc), nullptr);
  }
}

TEST(draining, what_was_lost_on_its_way_to_the_leader_is_said_again) {
  auto net = tests::converged_net(4);
  net.net.loss = 1;
  net.set_draining(3, true);
  net.run_for(std::chrono::milliseconds(20));
  net.net.loss = 0;
  EXPECT_TRUE(net.run_until([&] { return all_say_that_only(net, 3); }, seconds(3)));
}

TEST(draining, a_new_leader_keeps_it) {
  auto net = tests::converged_net(4);
  net.set_draining(3, true);
  ASSERT_TRUE(net.run_until([&] { return all_say_that_only(net, 3); }, seconds(2)));
  net.leave(0);
  ASSERT_TRUE(net.run_until([&] { return net.converged(); }, seconds(10)));
  EXPECT_TRUE(net.view_of(1).find(net.at(3).self.inc)->draining);
}

std::vector<member> members_named(std::size_t count) {
  std::vector<member> members(count);
  for (std::size_t i = 0; i < count; ++i) {
    members[i].name = "node" + std::to_string(i);
    members[i].id = node_id_of(members[i].name);
    members[i].inc = {1, i + 1};
  }
  return members;
}

TEST(draining, a_draining_member_owns_no_key_and_its_keys_move_as_if_it_had_left) {
  auto members = members_named(5);
  auto without = members;
  without.pop_back();
  members.back().draining = true;
  hash_ring ring(members);
  hash_ring left(without);
  std::mt19937_64 random(3);
  for (int i = 0; i < 1000; ++i) {
    auto position = random();
    std::array<node_id, 2> owners;
    std::array<node_id, 2> expected;
    ASSERT_EQ(ring.owners_at(position, owners), 2u);
    ASSERT_EQ(left.owners_at(position, expected), 2u);
    EXPECT_EQ(owners, expected);
  }
  EXPECT_EQ(ring.incarnation_of(members.back().id), incarnation{});
}

TEST(draining, where_all_drain_all_own_keys) {
  auto members = members_named(3);
  for (auto& m : members)
    m.draining = true;
  EXPECT_EQ(hash_ring(members).members(), 3u);
}

TEST(draining, the_codec_carries_it_and_takes_no_other_value) {
  auto who = members_named(1).front();
  who.host = "10.0.0.1";
  who.draining = true;
  auto bytes = encode_member(who);
  EXPECT_EQ(*decode_member(bytes), who);
  bytes.back() = 2;
  EXPECT_FALSE(decode_member(bytes));
}

} // namespace
} // namespace peercache::discovery
