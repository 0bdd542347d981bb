#include "actors/membership/membership_actor.hpp"

#include "tests/actors/cluster_fixture.hpp"

#include "common/fault_ids.hpp"
#include "discovery/packet_codec.hpp"
#include "discovery/view_codec.hpp"

namespace peercache::actors {
namespace {

connector_actor::behavior_type unreachable_everywhere(connector_actor::pointer, caf::sec why) {
  return {[why](dial_atom, const std::string&, std::uint16_t, const std::string&,
                from_here) -> caf::result<gateway_actor> { return caf::make_error(why); },
          [](try_atom, const std::string&, std::uint16_t, from_here) { return std::string{}; },
          [](beat_atom, from_here) {}};
}

links_actor::behavior_type no_links(links_actor::pointer, int* views) {
  return {[views](view_atom, const std::string&, from_here) { ++*views; },
          [](tell_atom, const std::string&, from_here) {},
          [](hello_atom, std::uint64_t, std::uint64_t, bool, from_here) {},
          [](stats_atom) -> caf::result<metrics::samples, links_report> {
            return {metrics::samples{}, links_report{}};
          },
          [](beat_atom, from_here) {}};
}

/// A fake node at every address, with one membership actor, which is stopped to end all
/// connections to it.
struct fake_node {
  caf::actor gateway;
  caf::actor membership;
};

caf::behavior hears_packets(caf::event_based_actor*, int) {
  return {[](packet_atom, const std::string&) {}};
}

caf::behavior welcomes(caf::event_based_actor*, const discovery::member& who,
                       const caf::actor& membership) {
  return {[who, membership](hello_atom, std::uint32_t, const std::string&, const std::string&) {
    peer_welcome welcome;
    welcome.member = discovery::encode_member(who);
    welcome.membership = caf::actor_cast<membership_actor>(membership);
    return welcome;
  }};
}

connector_actor::behavior_type reaches(connector_actor::pointer, const caf::actor& gateway) {
  return {[gateway](dial_atom, const std::string&, std::uint16_t, const std::string&, from_here) {
            return caf::actor_cast<gateway_actor>(gateway);
          },
          [](try_atom, const std::string&, std::uint16_t, from_here) { return std::string{}; },
          [](beat_atom, from_here) {}};
}

/// Runs a membership actor and shows its state to the test.
membership_actor::behavior_type run_shown(membership_actor::stateful_pointer<membership_state> self,
                                          membership_actor_options options,
                                          membership_state** shown) {
  *shown = &self->state;
  return run_membership(self, std::move(options));
}

/// A membership actor that founds a cluster. The fixture records, in order, what the actor tells
/// its node.
class membership_actor_test : public test::actor_fixture {
protected:
  discovery::member here = member_named("here", 1);
  discovery::member there = member_named("there", 2);
  std::vector<std::string> told;
  /// Reasons that the actor has given, in order, why the node is not in the view; "" when the node
  /// is in it.
  std::vector<std::string> outside;
  connector_actor connector =
      system.spawn(unreachable_everywhere, caf::sec::cannot_connect_to_node);
  int views = 0;
  links_actor links = system.spawn(no_links, &views);
  membership_state* state = nullptr; ///< State of `membership`.
  membership_actor membership = spawn_membership();

  ~membership_actor_test() override {
    stop(membership);
    stop(links);
    stop(connector);
  }

  membership_actor spawn_membership(std::vector<discovery::endpoint> seeds = {},
                                    std::shared_ptr<seed_names> names = nullptr) {
    membership_actor_options options;
    options.names = std::move(names);
    options.machine.seeds = std::move(seeds);
    options.self = here;
    options.cluster = "test";
    options.connector = connector;
    options.links = links;
    options.on_expelled = [this](const discovery::view& without) {
      told.push_back("out since view " + std::to_string(without.version));
    };
    options.on_rejoined = [this] { told.push_back("in again"); };
    options.on_outside = [this](const std::string& why) { outside.push_back(why); };
    return system.spawn(run_shown, std::move(options), &state);
  }

  std::vector<std::string> missing_seeds() { return report().missing_seeds; }
  membership_report report() {
    auto pending = self->request(membership, caf::infinite, stats_atom_v);
    settle();
    membership_report said;
    pending.receive([&](const metrics::samples&, const membership_report& now) { said = now; },
                    [](const caf::error&) { ADD_FAILURE() << "no report"; });
    return said;
  }

  void hear(const discovery::view& latest) {
    caf::anon_send(membership, packet_atom_v,
                   discovery::encode_packet(discovery::view_packet{latest}, "test"));
    settle();
  }

  /// Lets the actor hear a heartbeat of a node with an older view: it answers at `from`.
  void hear_from(const discovery::endpoint& from) {
    caf::anon_send(membership, packet_atom_v,
                   discovery::encode_packet(
                       discovery::heartbeat_packet{from, {from.port, 77}, {}, true, {}}, "test"));
    settle();
  }

  discovery::view view_of(std::vector<discovery::member> members, std::uint64_t version) {
    std::sort(members.begin(), members.end(),
              [](const auto& a, const auto& b) { return a.id < b.id; });
    discovery::view made;
    made.term = 5;
    made.version = version;
    made.members = std::move(members);
    made.masters = {"there"};
    made.issuer = there.inc;
    return made;
  }
};

TEST_F(membership_actor_test, a_node_says_when_the_cluster_goes_on_without_it_and_when_it_is_back) {
  caf::anon_send(membership, beat_atom_v, from_here{});
  settle();
  ASSERT_EQ(count_of(membership, metric::members), 1u) << "founded";
  hear(view_of({here, there}, 10));
  EXPECT_TRUE(told.empty());
  hear(view_of({there}, 11));
  hear(view_of({there}, 12));
  EXPECT_EQ(told, std::vector<std::string>{"out since view 11"});
  hear(view_of({here, there}, 13));
  EXPECT_EQ(told, (std::vector<std::string>{"out since view 11", "in again"}));
}

TEST_F(membership_actor_test, a_node_that_drains_says_so_in_its_view) {
  caf::anon_send(membership, beat_atom_v, from_here{});
  settle();
  auto draining = [&] { return count_of(membership, metric::draining); };
  EXPECT_FALSE(draining());
  EXPECT_TRUE(ask<bool>(membership, drain_atom_v, true, from_here{}));
  EXPECT_TRUE(draining());
  EXPECT_TRUE(ask<bool>(membership, drain_atom_v, false, from_here{}));
  EXPECT_FALSE(draining());
}

TEST_F(membership_actor_test, a_master_has_left_once_it_hears_of_the_view_without_it) {
  caf::anon_send(membership, beat_atom_v, from_here{});
  settle();
  auto third = member_named("third", 3);
  auto three = view_of({here, there, third}, 10);
  three.masters = {"there", "here", "third"};
  hear(three);
  bool left = false;
  system.spawn(
      [](caf::event_based_actor* gateway, const membership_actor& whom, bool* done) {
        gateway->request(whom, caf::infinite, leave_atom_v, from_here{}).then([done](bool) {
          *done = true;
        });
      },
      membership, &left);
  settle();
  EXPECT_FALSE(left) << "the other two may still need its vote";
  hear(view_of({there, third}, 11));
  EXPECT_TRUE(left);
}

TEST_F(membership_actor_test, a_seed_that_no_member_is_at_is_said_unless_a_gone_one_was_there) {
  stop(membership);
  there.control_port = 9;
  membership = spawn_membership({control_endpoint(there), {"10.9.9.9", 7}});
  EXPECT_TRUE(missing_seeds().empty()) << "it is in no view yet, and says so elsewhere";
  auto two = view_of({here, there}, 10);
  hear(two);
  EXPECT_EQ(missing_seeds(), std::vector<std::string>{"10.9.9.9:7"});
  auto one = view_of({here}, 11);
  one.masters = {"here"};
  one.gone = {{"there", there.host, there.control_port, 1, discovery::departure::silent}};
  hear(one);
  EXPECT_EQ(missing_seeds(), std::vector<std::string>{"10.9.9.9:7"});
  EXPECT_EQ(count_of(membership, metric::members_gone), 1u);
  EXPECT_TRUE(*ask<bool>(membership, forget_atom_v, std::string("there"), from_here{}));
  settle();
  EXPECT_EQ(count_of(membership, metric::members_gone), 0u);
  EXPECT_EQ(missing_seeds().size(), 2u) << "the seed still stands in the configuration";
  EXPECT_FALSE(*ask<bool>(membership, forget_atom_v, std::string("there"), from_here{}));
}

TEST_F(membership_actor_test, a_node_that_is_not_in_says_what_each_seed_answers) {
  stop(membership);
  outside.clear();
  membership = spawn_membership({{"10.9.9.9", 7}});
  caf::anon_send(membership, beat_atom_v, from_here{});
  settle();
  ASSERT_EQ(report().faults.size(), 1u);
  EXPECT_EQ(report().faults[0].id, fault_ids::seed_unreachable);
  pass(std::chrono::milliseconds(200)); // Lets the actor beat: then it tells its node.
  ASSERT_FALSE(outside.empty());
  EXPECT_NE(outside.back().find("10.9.9.9:7: no connection"), std::string::npos) << outside.back();
  hear(view_of({here, there}, 10));
  EXPECT_TRUE(report().faults.empty());
  EXPECT_EQ(outside.back(), "");
}

TEST_F(membership_actor_test, a_seed_without_an_address_is_a_fault_and_not_dialed) {
  stop(membership);
  outside.clear();
  const discovery::endpoint named{"no.such.host", 7};
  const auto unknown = [](const std::string&) -> result<std::string> {
    return {errc::invalid_argument, "unknown"};
  };
  membership = spawn_membership(
      {named}, std::make_shared<seed_names>(seed_names::answers{{named, unknown("")}}, unknown,
                                            std::chrono::hours(1)));
  caf::anon_send(membership, beat_atom_v, from_here{});
  settle();
  ASSERT_EQ(report().faults.size(), 1u) << "a dial would have added another one";
  EXPECT_EQ(report().faults[0].id, fault_ids::seed_no_address);
  pass(std::chrono::milliseconds(200)); // Lets the actor beat: then it tells its node.
  ASSERT_FALSE(outside.empty());
  EXPECT_NE(outside.back().find("no address for the seed no.such.host:7 (unknown)"),
            std::string::npos)
      << outside.back();
  hear(view_of({here, there}, 10));
  EXPECT_EQ(report().faults.size(), 1u) << "the seed stands in the configuration";
  EXPECT_TRUE(missing_seeds().empty()) << "one fault is enough";
}

TEST_F(membership_actor_test, a_node_that_finds_the_address_of_a_seed_dials_it) {
  stop(membership);
  const discovery::endpoint named{"late.host", 7};
  const auto known = [](const std::string&) -> result<std::string> {
    return std::string("10.9.9.9");
  };
  const seed_names::answers lacking{{named, error{errc::invalid_argument, "unknown"}}};
  membership = spawn_membership(
      {named}, std::make_shared<seed_names>(lacking, known, std::chrono::milliseconds(1)));
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  std::string id;
  while (id != fault_ids::seed_unreachable && std::chrono::steady_clock::now() < until) {
    caf::anon_send(membership, beat_atom_v, from_here{});
    pass(std::chrono::milliseconds(500));
    if (const auto faults = report().faults; !faults.empty()) {
      id = faults[0].id;
      EXPECT_EQ(faults.size(), 1u);
    }
  }
  EXPECT_EQ(id, fault_ids::seed_unreachable) << "nobody is there, and the address was dialed";
}

TEST_F(membership_actor_test, a_node_that_is_pushed_out_says_so_at_once_and_by_whom) {
  caf::anon_send(membership, beat_atom_v, from_here{});
  settle();
  hear(view_of({here, there}, 10));
  EXPECT_TRUE(outside.empty()) << "it was never out";
  auto namesake = here;
  namesake.inc = {9, 9};
  namesake.control_port = 77;
  hear(view_of({namesake, there}, 11));
  ASSERT_FALSE(outside.empty());
  EXPECT_NE(outside.back().find("another process is 'here', at " + here.host + ":77"),
            std::string::npos)
      << outside.back();
  EXPECT_EQ(report().faults.at(0).id, fault_ids::pushed_out);
  hear(view_of({here, there}, 12));
  EXPECT_EQ(outside.back(), "");
}

TEST_F(membership_actor_test, addresses_that_lead_nowhere_are_forgotten_but_not_those_of_seeds) {
  stop(membership);
  const discovery::endpoint seed{"10.9.9.9", 7};
  membership = spawn_membership({control_endpoint(here), seed});
  caf::anon_send(membership, beat_atom_v, from_here{});
  hear(view_of({here, there}, 10));
  hear_from(seed);
  for (std::uint16_t port = 100; port < 150; ++port)
    hear_from({"10.9.9.9", port});
  EXPECT_LE(state->routes.size(), 2u);
  EXPECT_TRUE(state->routes.contains(seed));
}

TEST_F(membership_actor_test, an_address_of_another_cluster_is_remembered_for_a_while) {
  stop(membership);
  stop(connector);
  connector = system.spawn(unreachable_everywhere, caf::sec::incompatible_application_ids);
  membership = spawn_membership();
  caf::anon_send(membership, beat_atom_v, from_here{});
  settle();
  const discovery::endpoint other{"10.9.9.9", 7};
  hear_from(other);
  hear(view_of({here, there}, 10));
  EXPECT_TRUE(state->routes.contains(other)) << "it is not to be dialed again so soon";
  pass(std::chrono::seconds(11));
  hear(view_of({here, there}, 50));
  EXPECT_FALSE(state->routes.contains(other));
}

TEST_F(membership_actor_test, addresses_of_a_node_that_is_gone_are_forgotten) {
  stop(membership);
  stop(connector);
  fake_node node;
  node.membership = system.spawn(hears_packets, 0);
  node.gateway = system.spawn(welcomes, there, node.membership);
  connector = system.spawn(reaches, node.gateway);
  membership = spawn_membership();
  caf::anon_send(membership, beat_atom_v, from_here{});
  settle();
  for (std::uint16_t port = 100; port < 110; ++port)
    hear_from({"10.9.9.9", port});
  hear(view_of({here, there}, 10));
  EXPECT_GE(state->routes.size(), 10u) << "the connections stand";
  stop(node.membership);
  EXPECT_TRUE(state->routes.empty()) << state->routes.size();
  stop(node.gateway);
}

TEST_F(membership_actor_test, who_has_no_vote_has_left_at_once) {
  caf::anon_send(membership, beat_atom_v, from_here{});
  settle();
  hear(view_of({here, there}, 10));
  EXPECT_TRUE(ask<bool>(membership, leave_atom_v, from_here{}));
}

} // namespace
} // namespace peercache::actors
