// In which form a gateway tells its node's view.

#include "discovery/view_difference.hpp"
#include "tests/actors/gateway/gateway_fixture.hpp"

#include <vector>

namespace peercache::actors {
namespace {

session_listener::behavior_type listening_client(session_listener::pointer,
                                                 std::vector<std::string>* told) {
  return {[told](view_atom, const std::string& view) { told->push_back(view); },
          [](beat_atom, from_here) {}};
}

class gateway_views_test : public gateway_fixture {
protected:
  std::vector<std::string> told;
  session_listener client = system.spawn(listening_client, &told);

  gateway_views_test() { spawn_gateway(usual_options()); }
  ~gateway_views_test() override {
    stop(gateway);
    stop(client);
  }

  topology_ptr three(std::uint64_t version, bool drains) {
    auto third = member_named("third", 3);
    third.draining = drains;
    return topology_of({{here, shard_here}, {there, shard_there}, {third, shard_there}}, version);
  }
  void follow(const topology_ptr& next) {
    caf::anon_send(gateway, topology_atom_v, next);
    settle();
  }
  std::string view_for(const std::string& known) {
    return *ask<std::string>(gateway, view_atom_v, known);
  }
};

TEST_F(gateway_views_test, a_session_is_told_what_changed_in_the_view_of_its_welcome) {
  follow(three(1, false));
  const auto welcome = ask<session_welcome>(gateway, session_atom_v, std::string{"client"}, client);
  ASSERT_TRUE(welcome);
  auto known = discovery::decode_view(welcome->view);
  ASSERT_TRUE(known);
  for (const std::uint64_t version : {2, 3}) {
    const auto next = three(version, version == 2);
    follow(next);
    ASSERT_EQ(told.size(), version - 1);
    EXPECT_FALSE(discovery::decode_view(told.back())) << "a difference";
    known = discovery::decode_told_view(told.back(), *known);
    ASSERT_TRUE(known);
    EXPECT_EQ(*known, next->view);
  }
  follow(both(4));
  known = discovery::decode_told_view(told.back(), *known);
  ASSERT_TRUE(known);
  EXPECT_EQ(known->members.size(), 2u);
}

TEST_F(gateway_views_test, a_session_is_told_the_whole_view_where_nothing_is_spared) {
  follow(both(1));
  ASSERT_TRUE(ask<session_welcome>(gateway, session_atom_v, std::string{"client"}, client));
  auto next = both(2);
  auto changed = std::make_shared<topology>(*next);
  changed->view.members[0].draining = true;
  follow(changed);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told.back(), discovery::encode_view(changed->view));
}

TEST_F(gateway_views_test, who_asks_with_the_stamp_of_the_view_before_gets_the_difference) {
  const auto first = three(1, false);
  const auto second = three(2, true);
  follow(first);
  follow(second);
  const auto whole = discovery::encode_view(second->view);
  EXPECT_EQ(view_for(""), whole);
  EXPECT_EQ(view_for(discovery::encode_stamp(second->view.stamp())), whole);
  EXPECT_EQ(view_for(discovery::encode_stamp({})), whole);
  const auto change = view_for(discovery::encode_stamp(first->view.stamp()));
  EXPECT_LT(change.size(), whole.size());
  const auto made = discovery::decode_told_view(change, first->view);
  ASSERT_TRUE(made);
  EXPECT_EQ(*made, second->view);
  EXPECT_FALSE(discovery::decode_told_view(change, second->view));
}

} // namespace
} // namespace peercache::actors
