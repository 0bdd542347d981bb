#include "actors/gateway/gateway_calls.hpp"

#include "tests/actors/cluster_fixture.hpp"

#include <utility>

namespace peercache::actors::gateway_calls_test {
namespace {

/// A client that ignores all messages. The second argument is not used: CAF 0.17 needs one, because
/// without it it binds a reference to a null pointer.
session_listener::behavior_type deaf_client(session_listener::pointer, const int*) {
  return {[](view_atom, const std::string&) {}, [](beat_atom, from_here) {}};
}

class gateway_with_clients : public cluster_fixture {
protected:
  int unused = 0;
  session_listener client = system.spawn(deaf_client, &unused);
  bool held = true; ///< Whether session locks are held, as by clients that have the pool mapped.
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
    options.session_is_held = [this](std::uint32_t) { return held; };
    options.directory = shard_here;
    options.data_plane = "verbs: rxe0";
    return system.spawn(run_gateway, std::move(options));
  }

  /// Opens a session while nobody holds its lock, as a new session requires.
  std::uint64_t open() {
    const bool held_later = std::exchange(held, false);
    const auto welcome =
        ask<session_welcome>(gateway, session_atom_v, std::string{"client"}, client);
    held = held_later;
    EXPECT_TRUE(welcome);
    return welcome ? welcome->session : 0;
  }

  void tell(std::uint64_t session, const std::string& door) {
    call_report report;
    report.spaces.emplace_back().door = door;
    caf::anon_send(gateway, calls_atom_v, session, std::move(report));
    settle();
  }

  void leave(std::uint64_t session) {
    caf::anon_send(gateway, leave_atom_v, session);
    settle();
  }

  std::vector<session_row> sessions() { return ask<sessions_report>(gateway, list_atom_v)->rows; }
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

TEST_F(gateway_with_clients, asks_pool_and_shard_how_pages_left) {
  tell_everyone(both(1));
  put(key_named("a"));
  ask<std::string>(shard_here, publish_atom_v, publication(key_named("b"), there));
  tell_everyone(topology_of({{here, shard_here}}, 2));
  pass(directory_options{}.grace); // After this grace the shard forgets members that are gone.
  std::string removed, prefixes;
  append_record(removed, key_named("a"));
  ask<std::string>(pool, remove_atom_v, removed, from_here{});
  for (const auto* name : {"a", "b", "c"})
    append_record(prefixes, key_named(name).prefix());
  const auto lost = ask<lost_report>(gateway, lost_atom_v, prefixes);
  ASSERT_TRUE(lost);
  ASSERT_EQ(lost->pages.size(), 2u);
  EXPECT_EQ(lost->pages[0].how, static_cast<std::uint8_t>(page_loss::removed));
  EXPECT_EQ(lost->pages[1].how, static_cast<std::uint8_t>(page_loss::holder_gone));
}

TEST_F(gateway_with_clients, lists_their_key_spaces_also_those_that_no_door_has_described) {
  call_report report;
  auto& described = report.spaces.emplace_back();
  described.space = 7;
  described.door = "sglang";
  described.fields = {"llama", "bf16"};
  described.pages.assign(call_kinds * page_status_count, 0);
  described.pages[0] = 3;                     // Pages of the call `exists`.
  described.pages[page_status_count] = 4;     // Pages of the call `get`.
  described.pages[2 * page_status_count] = 5; // Pages of the call `set`.
  report.uses.resize(2);
  report.uses[0].space = 7;
  report.uses[0].pages = {3, 4, 5};
  report.uses[1].space = 8;
  report.uses[1].pages = {1, 0, 2};
  caf::anon_send(gateway, calls_atom_v, open(), std::move(report));
  settle();
  const auto rows = sessions();
  ASSERT_EQ(rows.size(), 1u);
  ASSERT_EQ(rows[0].spaces.size(), 2u);
  EXPECT_EQ(rows[0].spaces[0].door, "sglang");
  EXPECT_EQ(rows[0].spaces[0].fields.at(1), "bf16");
  EXPECT_EQ(rows[0].spaces[0].asked, 7u);
  EXPECT_EQ(rows[0].spaces[0].stored, 5u);
  EXPECT_EQ(rows[0].spaces[1].space, 8u);
  EXPECT_TRUE(rows[0].spaces[1].fields.empty());
  EXPECT_EQ(rows[0].spaces[1].asked, 1u);
  EXPECT_EQ(rows[0].spaces[1].stored, 2u);
  EXPECT_TRUE(rows[0].slow_path.empty());
}

TEST_F(gateway_with_clients, says_who_reads_by_tcp_beside_rdma) {
  call_report report;
  report.data_plane = "tcp: no libibverbs";
  caf::anon_send(gateway, calls_atom_v, open(), std::move(report));
  settle();
  ASSERT_EQ(sessions().size(), 1u);
  EXPECT_NE(sessions()[0].slow_path.find("no libibverbs"), std::string::npos);
}

TEST_F(gateway_with_clients, lists_for_a_while_who_could_not_map_the_pool) {
  leave(open());
  EXPECT_TRUE(sessions().empty()) << "it had the pool mapped";
  held = false;
  const auto told = open();
  caf::anon_send(gateway, report_atom_v, told, metrics::samples{});
  settle();
  leave(told);
  EXPECT_TRUE(sessions().empty()) << "it had told its totals; its lock went with its end";
  leave(open());
  ASSERT_EQ(sessions().size(), 1u);
  EXPECT_EQ(sessions()[0].client, "client");
  EXPECT_NE(sessions()[0].slow_path.find("map the pool"), std::string::npos);
  pass(std::chrono::seconds(11));
  EXPECT_TRUE(sessions().empty());
}

} // namespace peercache::actors::gateway_calls_test
