// Tests of how a node tries the ports that clients use at other members.
#include "common/fault_ids.hpp"
#include "tests/link/links_fixture.hpp"

#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace peercache::link::port_trials_test {
namespace {

class port_trials : public links_fixture {
protected:
  /// Makes `links` the actor of a node with one other member, whose data port is 66.
  void be_a_node() {
    stop(links);
    auto own = std::make_shared<peer>();
    own->self = member_named("own", 1);
    links = spawn_links(own);
    auto there = member_named("there", 2);
    there.data_port = 66;
    greet_as(there);
    const auto view = topology_of({{own->self, {}}, {there, {}}}, 1)->view;
    caf::anon_send(links, view_atom_v, discovery::encode_view(view), from_here{});
    settle();
  }
  std::vector<node_fault> faults() {
    auto pending = self->request(links, caf::infinite, stats_atom_v);
    settle();
    std::vector<node_fault> said;
    pending.receive([&](const metrics::samples&, const links_report& now) { said = now.faults; },
                    [](const caf::error&) { ADD_FAILURE() << "no report"; });
    return said;
  }
};

TEST_F(port_trials, ports_are_tried_every_8_s_though_beats_are_a_little_late) {
  using std::chrono::milliseconds;
  be_a_node();
  while (net.trials == 0)
    pass(milliseconds(251));
  for (int round = 1; round <= 4; ++round) {
    const auto before = net.trials;
    int beats = 0;
    for (; net.trials == before; ++beats)
      pass(milliseconds(beats % 2 == 0 ? 1001 : 999)); // Each second beat is late by a millisecond.
    EXPECT_EQ(beats, 8) << "round " << round;
  }
}

/// A connect takes a second to fail where a firewall drops it.
TEST_F(port_trials, a_port_that_failed_is_tried_again_2_s_after_its_trial_began) {
  using std::chrono::milliseconds;
  be_a_node();
  net.closed[66] = "Connection timed out";
  net.holds_trials = true;
  while (net.trials == 0)
    pass(milliseconds(250));
  const auto first = net.trials;
  for (int i = 0; i < 5; ++i)
    pass(milliseconds(250));
  end_what_is_open();
  pass(milliseconds(500));
  EXPECT_EQ(net.trials, first) << "after 1.75 s";
  pass(milliseconds(250));
  EXPECT_GT(net.trials, first) << "after 2 s";
}

/// The links actor tries the ports that clients use itself: its own connection to a member, by the
/// control port, says nothing about them.
TEST_F(port_trials, a_members_port_that_does_not_connect_twice_is_a_fault_until_it_does) {
  using std::chrono::milliseconds;
  be_a_node();
  net.closed[66] = "Connection refused";
  const auto passes = [&](int seconds) {
    for (int i = 0; i < 4 * seconds; ++i)
      pass(milliseconds(250));
  };
  const auto next_trial = [&] { passes(9); };
  pass(milliseconds(250));
  EXPECT_TRUE(faults().empty()) << "it may only have ended";
  passes(3);
  ASSERT_EQ(faults().size(), 1u);
  const auto fault = faults()[0];
  EXPECT_EQ(fault.id, fault_ids::port_out_of_reach);
  for (const auto* part : {":66 (net.data_port of there)", "Connection refused"})
    EXPECT_NE(fault.what.find(part), std::string::npos) << fault.what;
  EXPECT_NE(fault.since_ms, 0u);
  net.closed = {{77, "Connection timed out"}};
  next_trial();
  next_trial();
  ASSERT_EQ(faults().size(), 1u);
  EXPECT_NE(faults()[0].what.find(":77 (net.lookup_port of there): Connection timed out"),
            std::string::npos)
      << faults()[0].what;
  net.closed.clear();
  next_trial();
  EXPECT_TRUE(faults().empty());
}

TEST_F(port_trials, a_client_tries_no_ports) {
  net.closed[66] = "Connection refused";
  auto there = member_named("there", 2);
  there.data_port = 66;
  auto cluster = topology_of({{there, {}}}, 1);
  greet_as(there);
  caf::anon_send(links, view_atom_v, discovery::encode_view(cluster->view), from_here{});
  settle();
  for (int i = 0; i < 60; ++i)
    pass(std::chrono::milliseconds(250));
  EXPECT_TRUE(faults().empty());
}

} // namespace
} // namespace peercache::link::port_trials_test
