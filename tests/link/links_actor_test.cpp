#include "link/links_actor.hpp"

#include "discovery/view_codec.hpp"
#include "tests/link/named_members.hpp"
#include "tests/support/actor_fixture.hpp"

namespace peercache::link {
namespace {

connector_actor::behavior_type
slow_connector(connector_actor::pointer self,
               std::vector<caf::typed_response_promise<gateway_actor>>* dials) {
  return {[self, dials](dial_atom, const std::string&, std::uint16_t, from_here) {
            dials->push_back(self->make_response_promise<gateway_actor>());
            return dials->back();
          },
          // CAF lets only the actor that made a promise keep it.
          [dials](beat_atom, from_here) {
            dials->back().deliver(caf::make_error(caf::sec::cannot_connect_to_node));
          }};
}

class links_actor_test : public test::actor_fixture {
protected:
  std::vector<caf::typed_response_promise<gateway_actor>> dials;
  std::vector<topology_ptr> published;
  connector_actor connector = system.spawn(slow_connector, &dials);
  links_actor links = spawn_links();

  ~links_actor_test() override {
    stop(links);
    stop(connector);
  }

  links_actor spawn_links() {
    links_options options;
    options.connector = connector;
    options.publish = [this](const topology_ptr& next) { published.push_back(next); };
    return system.spawn(run_links, std::move(options));
  }

  void fail_last_dial() {
    caf::anon_send(connector, beat_atom_v, from_here{});
    settle();
  }
};

TEST_F(links_actor_test, a_member_is_known_to_be_out_of_reach_once_it_was_tried) {
  auto cluster = topology_of({{member_named("dead", 1), {}}}, 1);
  caf::anon_send(links, view_atom_v, discovery::encode_view(cluster->view), from_here{});
  settle();
  ASSERT_EQ(published.size(), 1u);
  EXPECT_FALSE(published.back()->peers.at(0).tried) << "it may be linked in a moment";
  fail_last_dial();
  ASSERT_EQ(published.size(), 2u);
  EXPECT_TRUE(published.back()->peers.at(0).tried);
  EXPECT_FALSE(published.back()->peers.at(0).linked());
  pass(std::chrono::milliseconds(1000));
  ASSERT_EQ(dials.size(), 2u);
  fail_last_dial();
  EXPECT_EQ(published.size(), 2u) << "nothing new";
}

discovery::view view_of(std::size_t members, std::uint64_t version) {
  std::vector<std::pair<discovery::member, directory_actor>> nodes;
  for (std::size_t i = 0; i < members; ++i)
    nodes.push_back({member_named("node" + std::to_string(i), i + 1), {}});
  return topology_of(nodes, version)->view;
}

TEST(links_state, a_client_follows_a_cluster_that_was_started_anew) {
  links_state state;
  caf::actor_clock::time_point now{std::chrono::hours(1)};
  ASSERT_TRUE(state.adopt(view_of(2, 7), now));
  auto restarted = view_of(2, 2);
  for (auto& member : restarted.members)
    member.inc = incarnation::random();
  EXPECT_TRUE(state.adopt(restarted, now)) << "its number is lower, and nobody of before is in it";
  EXPECT_EQ(state.snapshot()->peers.at(0).self.inc, restarted.members[0].inc);
  auto late = view_of(1, 9);
  late.members[0] = restarted.members[1];
  late.version = 1;
  EXPECT_FALSE(state.adopt(late, now)) << "an older one of the same cluster";
}

TEST(links_state, a_node_follows_only_what_is_newer) {
  links_state state;
  auto own = std::make_shared<peer>();
  own->self = member_named("self", 99);
  state.options.self = own;
  caf::actor_clock::time_point now{std::chrono::hours(1)};
  ASSERT_TRUE(state.adopt(view_of(2, 7), now));
  auto other = view_of(1, 2);
  other.members[0].inc = incarnation::random();
  EXPECT_FALSE(state.adopt(other, now));
}

TEST(links_state, remembers_the_rings_that_it_left) {
  links_state state;
  caf::actor_clock::time_point now{std::chrono::hours(1)};
  ASSERT_TRUE(state.adopt(view_of(1, 1), now));
  EXPECT_TRUE(state.snapshot()->past.asked_at(now).empty());
  ASSERT_TRUE(state.adopt(view_of(2, 2), now));
  now += std::chrono::milliseconds(10);
  ASSERT_TRUE(state.adopt(view_of(3, 3), now));
  const auto known = state.snapshot();
  const auto past = known->past.asked_at(now);
  ASSERT_EQ(past.size(), 2u);
  EXPECT_EQ(past[0]->members(), 2u);
  EXPECT_EQ(past[1]->members(), 1u);
}

} // namespace
} // namespace peercache::link
