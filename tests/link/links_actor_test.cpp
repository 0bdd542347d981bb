#include "link/links_actor.hpp"

#include "tests/link/links_fixture.hpp"

#include <string>

namespace peercache::link {
namespace {

class links_actor_test : public links_fixture {};

/// A links actor of a client, whose connections are kept elsewhere (by the member channels).
class client_links_test : public links_fixture {
protected:
  client_links_test() {
    stop(links);
    links_options options;
    options.connector = connector;
    options.publish = [this](const topology_ptr& next) { published.push_back(next); };
    options.reach = [this](const discovery::member& whom) { reaches.push_back(whom); };
    options.keep_only = [this](const discovery::view& view) { kept = view; };
    links = system.spawn(run_links, std::move(options));
    who.lookup_port = 77;
    view = topology_of({{who, {}}}, 1)->view;
    caf::anon_send(links, view_atom_v, discovery::encode_view(view), from_here{});
    settle();
  }
  /// Tells the links actor that the client's connection to `who` stands, or that there is none.
  void say(bool stands) {
    caf::anon_send(links, hello_atom_v, who.inc.high, who.inc.low, stands, from_here{});
    settle();
  }
  const peer& last() const { return published.back()->peers.at(0); }

  discovery::member who = member_named("there", 1);
  discovery::view view;
  std::vector<discovery::member> reaches;
  discovery::view kept;
};

TEST_F(client_links_test, members_are_reached_at_their_look_up_ports_and_nobody_is_dialled) {
  EXPECT_EQ(reaches, std::vector{who});
  EXPECT_EQ(kept, view);
  EXPECT_FALSE(last().linked());
  say(true);
  EXPECT_TRUE(last().linked());
  EXPECT_EQ(last().lookup_port, 77);
  EXPECT_TRUE(dials.empty());
  pass(std::chrono::seconds(2));
  EXPECT_EQ(reaches.size(), 1u) << "the connection stands";
}

TEST_F(client_links_test, a_connection_that_breaks_is_made_again) {
  say(true);
  say(false);
  EXPECT_FALSE(last().linked());
  EXPECT_TRUE(last().tried);
  pass(std::chrono::milliseconds(250));
  EXPECT_EQ(reaches.size(), 2u) << "at once";
  say(false);
  pass(std::chrono::milliseconds(250));
  EXPECT_EQ(reaches.size(), 2u) << "not yet";
  pass(std::chrono::milliseconds(500));
  EXPECT_EQ(reaches.size(), 3u);
}

TEST_F(client_links_test, of_nobody_in_the_view_is_told_in_vain) {
  who.inc = {5, 5};
  const auto before = published.size();
  say(true);
  say(false);
  EXPECT_EQ(published.size(), before);
}

TEST_F(links_actor_test, a_member_is_known_to_be_out_of_reach_once_it_was_tried) {
  auto cluster = topology_of({{member_named("dead", 1), {}}}, 1);
  caf::anon_send(links, view_atom_v, discovery::encode_view(cluster->view), from_here{});
  settle();
  ASSERT_EQ(published.size(), 1u);
  EXPECT_FALSE(published.back()->peers.at(0).tried) << "it may be linked in a moment";
  end_what_is_open();
  ASSERT_EQ(published.size(), 2u);
  EXPECT_TRUE(published.back()->peers.at(0).tried);
  EXPECT_FALSE(published.back()->peers.at(0).linked());
  pass(std::chrono::milliseconds(1000));
  ASSERT_EQ(dials.size(), 2u);
  end_what_is_open();
  EXPECT_EQ(published.size(), 2u) << "nothing new";
}

discovery::view view_of(std::size_t members, std::uint64_t version) {
  std::vector<std::pair<discovery::member, directory_actor>> nodes;
  for (std::size_t i = 0; i < members; ++i)
    nodes.push_back({member_named("node" + std::to_string(i), i + 1), {}});
  return topology_of(nodes, version)->view;
}

using source = links_state::source;

/// A client that a shard has told of view 9, while its own node was at view 7. The member `node2`
/// joined with view 9.
class lagging_own_node : public testing::Test {
protected:
  lagging_own_node() {
    ended.issuer = newcomer;
    EXPECT_TRUE(state.adopt(view_of(2, 7), source::own_node, now));
    EXPECT_TRUE(state.adopt(ended, source::other_node, now));
  }
  void lose_issuer() { links_state::cut(state.links.at(newcomer), now); }
  bool goes_back_later() {
    now += discovery::followed_view::go_back_after;
    return state.go_back(now);
  }

  links_state state;
  caf::actor_clock::time_point now{std::chrono::hours(1)};
  discovery::view ended = view_of(3, 9);
  const incarnation newcomer = member_named("node2", 3).inc;
};

TEST_F(lagging_own_node, is_followed_past_a_view_that_ended_with_its_issuer) {
  lose_issuer();
  const auto successor = view_of(2, 8);
  EXPECT_FALSE(state.adopt(successor, source::own_node, now)) << "view 9 may come in a moment";
  EXPECT_FALSE(state.go_back(now));
  EXPECT_TRUE(goes_back_later());
  EXPECT_EQ(state.view, successor);
  EXPECT_FALSE(state.links.contains(newcomer));
  EXPECT_FALSE(goes_back_later()) << "done";
}

TEST_F(lagging_own_node, is_followed_past_a_view_that_was_heard_of_after_its_own) {
  lose_issuer();
  EXPECT_TRUE(goes_back_later());
  EXPECT_EQ(state.view, view_of(2, 7));
}

TEST_F(lagging_own_node, is_waited_for_while_the_issuer_of_the_newer_view_may_be_there) {
  EXPECT_FALSE(goes_back_later()) << "nobody has tried to reach it yet";
  state.links.at(newcomer).handles.tried = true;
  state.links.at(newcomer).handles.reached = true;
  EXPECT_FALSE(goes_back_later());
}

TEST_F(lagging_own_node, is_waited_for_while_it_knows_the_issuer_of_the_newer_view) {
  lose_issuer();
  EXPECT_FALSE(state.adopt(view_of(3, 8), source::own_node, now));
  EXPECT_FALSE(goes_back_later());
}

TEST_F(lagging_own_node, that_catches_up_is_not_followed_back) {
  lose_issuer();
  EXPECT_FALSE(state.adopt(view_of(2, 8), source::own_node, now));
  EXPECT_TRUE(state.adopt(view_of(2, 10), source::own_node, now));
  EXPECT_FALSE(goes_back_later());
  EXPECT_EQ(state.view, view_of(2, 10));
}

TEST_F(lagging_own_node, is_followed_at_once_into_a_cluster_that_is_started_anew) {
  auto restarted = view_of(2, 2);
  for (auto& member : restarted.members)
    member.inc = incarnation::random();
  EXPECT_TRUE(state.adopt(restarted, source::own_node, now)) << "a cluster counts from one again";
  EXPECT_EQ(state.snapshot()->peers.at(0).self.inc, restarted.members[0].inc);
}

/// Two halves of a cluster have merged. The client gets the view of the other half's leader, and
/// then an older view that its own node sent before.
TEST_F(client_links_test, an_older_view_of_the_own_node_that_comes_late_changes_nothing) {
  auto other = member_named("other", 9);
  auto merged = topology_of({{who, {}}, {other, {}}}, 2)->view;
  merged.issuer = other.inc;
  caf::anon_send(links, tell_atom_v, discovery::encode_view(merged), from_here{});
  settle();
  ASSERT_EQ(kept, merged);
  auto late = view;
  late.version = 1;
  caf::anon_send(links, view_atom_v, discovery::encode_view(late), from_here{});
  settle();
  EXPECT_EQ(kept, merged);
  const auto say_of_other = [&](bool stands) {
    caf::anon_send(links, hello_atom_v, other.inc.high, other.inc.low, stands, from_here{});
    settle();
  };
  say_of_other(true);
  for (int i = 0; i < 20; ++i)
    pass(std::chrono::milliseconds(250));
  EXPECT_EQ(kept, merged) << "who made it lives";
  say_of_other(false);
  say_of_other(false);
  pass(std::chrono::milliseconds(250));
  EXPECT_EQ(kept, late) << "who made it has ended, and the own node has not heard of it";
  EXPECT_EQ(published.back()->view, late);
}

TEST(links_state, of_other_nodes_only_a_newer_view_counts) {
  links_state state;
  caf::actor_clock::time_point now{std::chrono::hours(1)};
  ASSERT_TRUE(state.adopt(view_of(2, 7), source::own_node, now));
  EXPECT_FALSE(state.adopt(view_of(3, 6), source::other_node, now));
  EXPECT_FALSE(state.adopt(view_of(2, 7), source::other_node, now)) << "known already";
  EXPECT_TRUE(state.adopt(view_of(3, 8), source::other_node, now));
}

TEST(links_state, no_view_of_a_node_that_has_none_counts) {
  links_state state;
  caf::actor_clock::time_point now{std::chrono::hours(1)};
  ASSERT_TRUE(state.adopt(view_of(2, 7), source::own_node, now));
  EXPECT_FALSE(state.adopt(discovery::view{}, source::own_node, now));
}

TEST(links_state, a_node_follows_only_what_is_newer) {
  links_state state;
  auto own = std::make_shared<peer>();
  own->self = member_named("self", 99);
  state.options.self = own;
  caf::actor_clock::time_point now{std::chrono::hours(1)};
  ASSERT_TRUE(state.adopt(view_of(2, 7), source::own_node, now));
  auto other = view_of(1, 2);
  other.members[0].inc = incarnation::random();
  EXPECT_FALSE(state.adopt(other, source::own_node, now));
}

TEST(links_state, remembers_the_rings_that_it_left) {
  links_state state;
  caf::actor_clock::time_point now{std::chrono::hours(1)};
  ASSERT_TRUE(state.adopt(view_of(1, 1), source::own_node, now));
  EXPECT_TRUE(state.snapshot()->past.asked_at(now).empty());
  ASSERT_TRUE(state.adopt(view_of(2, 2), source::own_node, now));
  now += std::chrono::milliseconds(10);
  ASSERT_TRUE(state.adopt(view_of(3, 3), source::own_node, now));
  const auto known = state.snapshot();
  const auto past = known->past.asked_at(now);
  ASSERT_EQ(past.size(), 2u);
  EXPECT_EQ(past[0]->members(), 2u);
  EXPECT_EQ(past[1]->members(), 1u);
}

} // namespace
} // namespace peercache::link
