#include "actors/membership/join_check.hpp"

#include "tests/actors/cluster_fixture.hpp"

#include "common/fault_ids.hpp"
#include "discovery/packet_codec.hpp"
#include "discovery/view_codec.hpp"
#include "link/connector_actor.hpp"

#include <map>
#include <variant>

namespace peercache::actors::join_check_test {
namespace {

using discovery::join_packet;
using discovery::refused_packet;

/// For each port: the member that answers a hello there.
using listeners = std::map<std::uint16_t, discovery::member>;

struct network {
  listeners there;
  bool silent = false; ///< Whether dials get neither an answer nor a refusal.
  std::string shown;   ///< Name in the certificate that all listeners show; empty: there is no TLS.
  int dials = 0;
};

caf::behavior greets(caf::event_based_actor*, const discovery::member& who) {
  return {[who](hello_atom, std::uint32_t, const std::string&, const std::string&) {
    peer_welcome welcome;
    welcome.member = discovery::encode_member(who);
    return welcome;
  }};
}

connector_actor::behavior_type dials_in(connector_actor::pointer self, network* net) {
  return {[self, net](dial_atom, const std::string&, std::uint16_t port, const std::string& name,
                      from_here) -> caf::result<gateway_actor> {
            ++net->dials;
            if (net->silent)
              return self->make_response_promise<gateway_actor>();
            if (!net->shown.empty() && net->shown != name)
              return caf::make_error(caf::sec::cannot_connect_to_node,
                                     link::no_tls_with_it + net->shown + " is not " + name);
            const auto found = net->there.find(port);
            if (found == net->there.end())
              return caf::make_error(caf::sec::cannot_connect_to_node);
            return caf::actor_cast<gateway_actor>(self->home_system().spawn(greets, found->second));
          },
          [](try_atom, const std::string&, std::uint16_t, from_here) { return std::string{}; },
          [](beat_atom, from_here) {}};
}

/// A links actor that does nothing. The second argument is not used: CAF 0.17 needs one, because
/// without it it binds a reference to a null pointer.
links_actor::behavior_type no_links(links_actor::pointer, const network*) {
  return {[](view_atom, const std::string&, from_here) {},
          [](tell_atom, const std::string&, from_here) {},
          [](hello_atom, std::uint64_t, std::uint64_t, bool, from_here) {},
          [](stats_atom) -> caf::result<metrics::samples, links_report> {
            return {metrics::samples{}, links_report{}};
          },
          [](beat_atom, from_here) {}};
}

/// A fake membership actor of another node: sends joins to `whom`, and adds the refusals that it
/// gets to `refusals`.
caf::behavior sends_joins(caf::event_based_actor* self, const membership_actor& whom,
                          std::vector<std::string>* refusals) {
  return {
      [self, whom](tell_atom, const std::string& bytes) { self->send(whom, packet_atom_v, bytes); },
      [refusals](packet_atom, const std::string& bytes) {
        const auto packet = discovery::decode_packet(bytes, "test");
        if (packet && std::holds_alternative<refused_packet>(*packet))
          refusals->push_back(std::get<refused_packet>(*packet).reason);
      }};
}

/// The membership actor of a node that has founded a cluster, and a fake membership actor of a node
/// that asks to join.
class join_check : public test::actor_fixture {
protected:
  discovery::member here = member_at("here", 1);
  discovery::member there = member_at("there", 2);
  network net;
  std::vector<std::string> refusals;
  connector_actor connector = system.spawn(dials_in, &net);
  links_actor links = system.spawn(no_links, &net);
  membership_actor membership = spawn_membership({});
  caf::actor caller = system.spawn(sends_joins, membership, &refusals);

  ~join_check() override {
    stop(caller);
    stop(membership);
    stop(links);
    stop(connector);
  }

  static discovery::member member_at(const std::string& name, std::uint64_t inc) {
    auto made = member_named(name, inc);
    made.control_port = static_cast<std::uint16_t>(31'000 + inc);
    made.data_port = made.control_port;
    return made;
  }

  membership_actor spawn_membership(std::vector<discovery::endpoint> seeds) {
    membership_actor_options options;
    options.machine.seeds = std::move(seeds);
    options.self = here;
    options.cluster = "test";
    options.connector = connector;
    options.links = links;
    options.on_expelled = [](const discovery::view&) {};
    options.on_rejoined = [] {};
    const auto made = system.spawn(run_membership, std::move(options));
    caf::anon_send(made, beat_atom_v, from_here{});
    settle();
    return made;
  }

  void join(const discovery::member& who) {
    caf::anon_send(caller, tell_atom_v,
                   discovery::encode_packet(join_packet{who, {}, false, false}, "test"));
    settle();
  }
  /// Returns the faults that the membership actor reports.
  std::vector<node_fault> faults() {
    std::vector<node_fault> said;
    auto pending = self->request(membership, caf::infinite, stats_atom_v);
    settle();
    pending.receive(
        [&](const metrics::samples&, const membership_report& report) { said = report.faults; },
        [](const caf::error& why) { ADD_FAILURE() << to_string(why); });
    return said;
  }
  std::uint64_t members() { return count_of(membership, metric::members); }
};

TEST_F(join_check, who_answers_at_its_address_is_taken_in) {
  net.there[there.control_port] = there;
  join(there);
  EXPECT_EQ(members(), 2u);
  EXPECT_TRUE(refusals.empty()) << refusals.front();
}

TEST_F(join_check, a_node_that_knows_no_seed_but_itself_says_so_while_it_is_alone) {
  EXPECT_TRUE(faults().empty());
  stop(caller);
  stop(membership);
  membership = spawn_membership({{here.host, here.control_port}});
  caller = system.spawn(sends_joins, membership, &refusals);
  for (int beat = 0; beat < 40; ++beat)
    pass(std::chrono::milliseconds(250));
  const auto said = faults();
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said.front().id, fault_ids::seed_only_self);
  net.there[there.control_port] = there;
  join(there);
  EXPECT_EQ(members(), 2u);
  EXPECT_TRUE(faults().empty()) << "others know the way here";
}

TEST_F(join_check, who_answers_nowhere_stays_outside_and_is_told_why) {
  join(there);
  EXPECT_EQ(members(), 1u);
  ASSERT_EQ(refusals.size(), 1u);
  EXPECT_EQ(refusals.front().rfind("nobody answers at the address that it advertises, "
                                   "127.0.0.1:31002",
                                   0),
            0u)
      << refusals.front();
}

TEST_F(join_check, another_process_at_the_address_does_not_speak_for_the_sender) {
  net.there[there.control_port] = member_at("there", 3);
  join(there);
  EXPECT_EQ(members(), 1u);
  ASSERT_EQ(refusals.size(), 1u);
  EXPECT_EQ(refusals.front().rfind("another process answers", 0), 0u) << refusals.front();
}

TEST_F(join_check, who_shows_another_nodes_certificate_stays_outside_and_is_told_so) {
  net.there[there.control_port] = there;
  net.shown = "other";
  join(there);
  EXPECT_EQ(members(), 1u);
  ASSERT_EQ(refusals.size(), 1u);
  EXPECT_EQ(refusals.front(), "whoever is at the address that it advertises, 127.0.0.1:31002, is "
                              "not let in: other is not there");
  pass(std::chrono::milliseconds(2000));
  net.shown = "there";
  join(there);
  EXPECT_EQ(members(), 2u);
}

TEST_F(join_check, who_was_not_reached_is_told_again_and_looked_for_again_later) {
  join(there);
  const auto dials = net.dials;
  join(there);
  EXPECT_EQ(refusals.size(), 2u);
  EXPECT_EQ(net.dials, dials) << "looked for again at once";
  EXPECT_TRUE(faults().empty()) << "a port that is opened late is not a fault";
  net.there[there.control_port] = there;
  pass(std::chrono::milliseconds(2000));
  join(there);
  EXPECT_EQ(members(), 2u);
}

TEST_F(join_check, who_is_not_reached_for_long_is_named_until_it_comes_in) {
  for (int look = 0; look < 4; ++look) {
    join(there);
    pass(std::chrono::seconds(2));
  }
  const auto said = faults();
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said.front().id, fault_ids::join_turned_away);
  EXPECT_NE(said.front().what.find("'there' at 127.0.0.1:31002: nobody answers"), std::string::npos)
      << said.front().what;
  net.there[there.control_port] = there;
  join(there);
  EXPECT_EQ(members(), 2u);
  EXPECT_TRUE(faults().empty());
}

TEST_F(join_check, an_incarnation_that_names_another_address_is_looked_for_there) {
  net.there[there.control_port] = there;
  join(there);
  ASSERT_EQ(members(), 2u);
  auto moved = there;
  moved.control_port = 31'009;
  join(moved);
  EXPECT_EQ(refusals.size(), 1u) << "believed because it was reached elsewhere";
}

TEST_F(join_check, the_senders_that_are_looked_for_are_limited) {
  net.silent = true;
  for (std::uint64_t i = 0; i < 200; ++i)
    join(member_at("ghost" + std::to_string(i), 100 + i));
  EXPECT_EQ(net.dials, 64);
  EXPECT_EQ(members(), 1u);
}

TEST_F(join_check, who_was_found_takes_no_place_among_those_who_are_looked_for) {
  for (std::uint64_t i = 0; i < 200; ++i) {
    const auto who = member_at("node" + std::to_string(i), 100 + i);
    net.there[who.control_port] = who;
    join(who);
  }
  EXPECT_GE(net.dials, 200);
  EXPECT_GT(members(), 1u);
}

TEST_F(join_check, who_passes_a_join_on_is_not_told_that_its_sender_is_refused) {
  caf::anon_send(caller, tell_atom_v,
                 discovery::encode_packet(join_packet{there, {}, false, true}, "test"));
  settle();
  EXPECT_EQ(members(), 1u);
  EXPECT_TRUE(refusals.empty()) << refusals.front();
}

TEST_F(join_check, a_node_that_is_in_no_view_tells_nobody_that_a_cluster_refuses_it) {
  stop(caller);
  stop(membership);
  membership = spawn_membership({discovery::control_endpoint(there)});
  caller = system.spawn(sends_joins, membership, &refusals);
  join(member_at("third", 3));
  EXPECT_TRUE(refusals.empty()) << refusals.front();
}

} // namespace
} // namespace peercache::actors::join_check_test
