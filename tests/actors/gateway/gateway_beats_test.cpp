// How often a gateway looks for what nobody tells it.

#include "tests/actors/gateway/gateway_fixture.hpp"

#include <chrono>
#include <string>
#include <utility>

namespace peercache::actors {
namespace gateway_beats_test {

using namespace std::chrono_literals;

class gateway_beats_test : public gateway_fixture {
protected:
  gateway_beats_test() {
    auto options = usual_options();
    options.caught_up = [this] { return caught_up; };
    options.pool_fault = [this] {
      ++looks;
      return std::string{};
    };
    spawn_gateway(std::move(options));
    settle();
  }
  ~gateway_beats_test() override {
    stop(gateway);
    if (client)
      stop(client);
  }

  void follow_view() {
    caf::anon_send(gateway, topology_atom_v, both(1));
    settle();
  }
  /// How often the gateway looks within ten seconds, once it has settled in its pace.
  int looks_in_ten_seconds() {
    wait(2s);
    const auto before = looks;
    wait(10s);
    return looks - before;
  }
  /// Waits until the gateway has looked and will not look for a second.
  void rest() {
    wait(2s);
    for (looks = 0; looks == 0;)
      pass(250ms);
  }
  void wait(std::chrono::milliseconds time) {
    for (auto left = time; left > 0ms; left -= 250ms)
      pass(250ms);
  }

  bool caught_up = true;
  bool unused = false;
  int looks = 0;
  session_listener client = system.spawn(silent_client, &unused);
};

TEST_F(gateway_beats_test, a_node_that_is_ready_looks_once_a_second) {
  follow_view();
  EXPECT_EQ(looks_in_ten_seconds(), 10);
}

TEST_F(gateway_beats_test, a_node_that_is_not_ready_looks_twice_a_second) {
  EXPECT_EQ(looks_in_ten_seconds(), 20);
}

TEST_F(gateway_beats_test, a_client_that_may_have_died_is_looked_at_within_half_a_second) {
  follow_view();
  ASSERT_TRUE(ask<session_welcome>(gateway, session_atom_v, std::string{"client"}, client));
  rest();
  looks = 0;
  caf::anon_send_exit(client, caf::exit_reason::kill);
  client = nullptr;
  settle();
  wait(500ms);
  EXPECT_EQ(looks, 1);
  EXPECT_EQ(looks_in_ten_seconds(), 20);
}

TEST_F(gateway_beats_test, a_client_that_waits_for_its_node_is_refused_within_a_second) {
  follow_view();
  rest();
  caught_up = false;
  auto pending =
      self->request(gateway, caf::infinite, session_atom_v, std::string{"client"}, client);
  settle();
  wait(1s);
  ASSERT_FALSE(self->mailbox().empty()) << "an answer";
  bool refused = false;
  pending.receive([](const session_welcome&) {}, [&](const caf::error&) { refused = true; });
  EXPECT_TRUE(refused);
}

} // namespace gateway_beats_test
} // namespace peercache::actors
