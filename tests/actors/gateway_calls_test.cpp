#include "actors/gateway_calls.hpp"

#include "tests/actors/cluster_fixture.hpp"

namespace peercache::actors::gateway_calls_test {
namespace {

/// The argument is not used: for a function without any CAF 0.17 binds a reference to a null
/// pointer.
session_listener::behavior_type deaf_client(session_listener::pointer, const int*) {
  return {[](view_atom, const std::string&) {}, [](beat_atom, from_here) {}};
}

class gateway_with_clients : public cluster_fixture {
protected:
  int unused = 0;
  session_listener client = system.spawn(deaf_client, &unused);
  gateway_actor gateway = spawn_gateway();

  ~gateway_with_clients() override {
    stop(gateway);
    stop(client);
  }

  gateway_actor spawn_gateway() {
    gateway_options options;
    options.self = here;
    options.pool = pool;
    options.ready = [](bool, const std::string&) {};
    options.session_is_dead = [](std::uint32_t) { return false; };
    options.session_is_held = [](std::uint32_t) { return false; };
    return system.spawn(run_gateway, std::move(options));
  }

  std::uint64_t open() {
    return ask<session_welcome>(gateway, session_atom_v, std::string{"client"}, client)->session;
  }

  void tell(std::uint64_t session, const std::string& door) {
    call_report report;
    report.spaces.emplace_back().door = door;
    caf::anon_send(gateway, calls_atom_v, session, std::move(report));
    settle();
  }

  std::vector<call_report> told() { return ask<calls_report>(gateway, calls_atom_v)->clients; }
};

} // namespace

TEST_F(gateway_with_clients, has_what_they_told_last_also_when_they_have_ended) {
  const auto session = open();
  EXPECT_TRUE(told().empty());
  tell(session, "first");
  tell(session, "second");
  tell(session + 1, "nobody");
  ASSERT_EQ(told().size(), 1u);
  EXPECT_EQ(told()[0].client, "client");
  EXPECT_EQ(told()[0].spaces.at(0).door, "second");
  EXPECT_FALSE(told()[0].ended);
  caf::anon_send(gateway, leave_atom_v, session);
  settle();
  ASSERT_EQ(told().size(), 1u);
  EXPECT_TRUE(told()[0].ended);
}

TEST_F(gateway_with_clients, asks_the_pool_how_pages_left) {
  std::string prefixes;
  append_record(prefixes, key_named("a").prefix());
  const auto lost = ask<lost_report>(gateway, lost_atom_v, prefixes);
  ASSERT_TRUE(lost);
  EXPECT_TRUE(lost->pages.empty());
}

} // namespace peercache::actors::gateway_calls_test
