// Tests of what a gateway says of a drain in which other actors of its node fail.

#include "tests/actors/gateway/gateway_fixture.hpp"

namespace peercache::actors::gateway_drain_test_file {
namespace {

using gateway_drain_test = gateway_fixture;

} // namespace

TEST_F(gateway_drain_test, a_drain_whose_directory_does_not_answer_is_not_complete) {
  auto directory = system.spawn(mute_actor, nullptr);
  auto options = usual_options();
  options.directory = caf::actor_cast<directory_actor>(directory);
  options.hand_over_timeout = std::chrono::milliseconds(500);
  spawn_gateway(options);
  auto asked = self->request(gateway, caf::infinite, drain_atom_v, true);
  settle();
  pass(std::chrono::milliseconds(1500));
  drain_report came_to;
  asked.receive([&](const drain_report& said) { came_to = said; },
                [](const caf::error& why) { FAIL() << to_string(why); });
  EXPECT_TRUE(draining) << "the view says so all the same";
  EXPECT_TRUE(came_to.uncertain);
  EXPECT_FALSE(came_to.complete());
  stop(directory);
}

TEST_F(gateway_drain_test, what_it_came_to_is_told_though_the_membership_does_not_answer) {
  auto silent = system.spawn(mute_actor, nullptr);
  auto options = usual_options();
  options.membership = caf::actor_cast<membership_actor>(silent);
  spawn_gateway(options);
  auto asked = self->request(gateway, caf::infinite, drain_atom_v, true);
  settle();
  pass(std::chrono::milliseconds(2000));
  bool uncertain = false;
  asked.receive([&](const drain_report& said) { uncertain = said.uncertain; },
                [](const caf::error& why) { FAIL() << to_string(why); });
  EXPECT_TRUE(uncertain);
  stop(silent);
}

} // namespace peercache::actors::gateway_drain_test_file
