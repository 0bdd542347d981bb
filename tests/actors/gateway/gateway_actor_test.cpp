#include "actors/gateway/gateway_actor.hpp"

#include "tests/actors/gateway/gateway_fixture.hpp"

#include "common/checksum.hpp"

#include <algorithm>
#include <set>

namespace peercache::actors {
namespace {

class gateway_actor_test : public gateway_fixture {
protected:
  bool process_is_dead = false;
  std::set<std::uint32_t> locks_held;
  double disk_scanned = 1;
  bool caught_up = true;
  std::string readiness = "never told";
  session_listener client = system.spawn(silent_client, &draining);

  gateway_actor_test() { spawn_gateway(watched_options()); }
  ~gateway_actor_test() override {
    stop(gateway);
    stop(client);
  }

  gateway_options watched_options() {
    auto options = usual_options();
    options.disk_scanned = [this] { return disk_scanned; };
    options.caught_up = [this] { return caught_up; };
    options.session_is_dead = [this](std::uint32_t) { return process_is_dead; };
    options.session_is_held = [this](std::uint32_t index) { return locks_held.contains(index); };
    options.ready = [this](bool ready, const std::string& reason) {
      readiness = ready ? "ready" : reason;
    };
    return options;
  }

  session_welcome welcome() {
    return *ask<session_welcome>(gateway, session_atom_v, std::string{"client"}, client);
  }

  /// Opens the session of a process that has mapped the pool. Returns the session's id.
  std::uint64_t open() {
    const auto session = welcome();
    locks_held.insert(session.lock_index);
    return session.session;
  }

  std::uint64_t filling() { return count_of(pool, metric::pool_pages_filling); }

  caf::expected<std::string> reserve_pages(std::uint64_t session, int pages) {
    std::string lengths;
    for (int i = 0; i < pages; ++i)
      append_record(lengths, std::uint32_t{4096});
    return ask<std::string>(gateway, reserve_atom_v, session, lengths);
  }

  bool commit_slot(std::uint64_t session, slot_id slot, const std::string& next_lengths = {}) {
    auto pending = self->request(gateway, caf::infinite, commit_atom_v, session,
                                 fill_slot(key_named("a"), slot),
                                 static_cast<std::uint8_t>(commit_mode::skip), next_lengths);
    settle();
    bool accepted = false;
    pending.receive([&](const std::string&, const std::string&) { accepted = true; },
                    [](const caf::error&) {});
    return accepted;
  }

  void lose_connection() {
    caf::anon_send_exit(client, caf::exit_reason::kill);
    settle();
  }
};

TEST_F(gateway_actor_test, a_node_that_the_others_go_on_without_is_unready_with_the_reason) {
  caf::anon_send(gateway, topology_atom_v, both(2));
  settle();
  ASSERT_EQ(readiness, "ready");
  caf::anon_send(gateway, outside_atom_v, std::string("pushed out"), from_here{});
  settle();
  EXPECT_EQ(readiness, "pushed out");
  caf::anon_send(gateway, outside_atom_v, std::string(), from_here{});
  settle();
  EXPECT_EQ(readiness, "ready");
}

TEST_F(gateway_actor_test, welcomes_the_same_version_and_cluster_only) {
  EXPECT_TRUE(ask<peer_welcome>(gateway, hello_atom_v, wire_version, std::string{"test"},
                                std::string{"me"}));
  EXPECT_FALSE(ask<peer_welcome>(gateway, hello_atom_v, wire_version + 1, std::string{"test"},
                                 std::string{"me"}));
  EXPECT_FALSE(ask<peer_welcome>(gateway, hello_atom_v, wire_version, std::string{"other"},
                                 std::string{"me"}));
}

/// Operators read the text of a refusal, so it must say what they should do.
TEST_F(gateway_actor_test, a_refusal_says_what_differs) {
  auto refusal = [this](std::uint32_t version, const char* cluster) {
    auto answer =
        ask<peer_welcome>(gateway, hello_atom_v, version, std::string{cluster}, std::string{"me"});
    return answer ? caf::error{} : answer.error();
  };
  auto words = [](const caf::error& why) {
    return why.context().match_elements<std::string>() ? why.context().get_as<std::string>(0) : "";
  };
  auto other = refusal(wire_version, "other");
  EXPECT_EQ(other, caf::sec::incompatible_application_ids);
  EXPECT_NE(words(other).find("not belong to cluster 'other'"), std::string::npos);
  EXPECT_EQ(words(other).find("'test'"), std::string::npos) << "the name lets strangers in";
  auto newer = refusal(wire_version + 1, "test");
  EXPECT_EQ(newer, caf::sec::incompatible_versions);
  EXPECT_NE(words(newer).find("wire version " + std::to_string(wire_version) + " and not " +
                              std::to_string(wire_version + 1)),
            std::string::npos);
}

TEST_F(gateway_actor_test, a_session_reserves_fills_and_commits) {
  tell_everyone(both());
  auto session = open();
  auto slots = reserve_pages(session, 2);
  ASSERT_TRUE(slots);
  EXPECT_EQ(filling(), 2u);
  EXPECT_TRUE(commit_slot(session, record_at<slot_id>(*slots, 0)));
  EXPECT_EQ(filling(), 1u);
  EXPECT_EQ(locations(shard_here, key_named("a")).size(), 1u);
}

/// A process that has not mapped the pool cannot fill slots. With slots it could publish, under any
/// key, the bytes that an earlier page has left there.
TEST_F(gateway_actor_test, a_session_of_a_process_that_has_not_mapped_the_pool_gets_no_slots) {
  tell_everyone(both());
  const auto stranger = welcome();
  EXPECT_FALSE(reserve_pages(stranger.session, 1));
  EXPECT_FALSE(commit_slot(stranger.session, {0}));
  std::string lengths;
  append_record(lengths, std::uint32_t{4096});
  auto pending = self->request(gateway, caf::infinite, commit_atom_v, stranger.session,
                               std::string{}, std::uint8_t{0}, lengths);
  settle();
  pending.receive([](const std::string&, const std::string& slots) { EXPECT_TRUE(slots.empty()); },
                  [](const caf::error&) {});
  EXPECT_EQ(filling(), 0u);
}

TEST_F(gateway_actor_test, what_was_filled_is_committed_though_its_process_has_ended_since) {
  tell_everyone(both());
  const auto session = open();
  const auto slots = reserve_pages(session, 1);
  ASSERT_TRUE(slots);
  locks_held.clear();
  std::string more;
  append_record(more, std::uint32_t{4096});
  EXPECT_TRUE(commit_slot(session, record_at<slot_id>(*slots, 0), more));
  EXPECT_EQ(filling(), 0u) << "nobody would fill another one";
  EXPECT_FALSE(reserve_pages(session, 1));
}

TEST_F(gateway_actor_test, a_page_whose_producer_computed_no_checksum_has_one_all_the_same) {
  tell_everyone(both());
  const auto session = open();
  const auto slot = record_at<slot_id>(*reserve_pages(session, 1), 0);
  const auto bytes = memory.slots().bytes(slot, 4096);
  std::fill(bytes.begin(), bytes.end(), std::byte{7});
  ASSERT_TRUE(commit_slot(session, slot));
  const auto found = locations(shard_here, key_named("a"));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].checksum, checksum_of(bytes));
  EXPECT_EQ(memory.slots().contents(slot).checksum, checksum_of(bytes));
}

TEST_F(gateway_actor_test, the_bytes_of_a_removed_page_are_gone) {
  tell_everyone(both());
  const auto slot = reserve(3 * 4096 - 5);
  const auto bytes = memory.slots().bytes(slot, 3 * 4096);
  std::fill(bytes.begin(), bytes.end(), std::byte{7});
  ASSERT_EQ(commit(key_named("a"), slot, commit_mode::skip, 3 * 4096 - 5), page_status::stored);
  std::string keys;
  append_record(keys, key_named("a"));
  EXPECT_TRUE(ask<std::string>(gateway, remove_atom_v, keys, from_here{}));
  EXPECT_TRUE(std::all_of(bytes.begin(), bytes.end(), [](auto b) { return b == std::byte{0}; }));
  EXPECT_EQ(count_of(pool, metric::pool_bytes_used), 0u);
}

TEST_F(gateway_actor_test, refuses_slots_that_the_session_does_not_hold) {
  tell_everyone(both());
  auto owner = open(), thief = open();
  auto slot = record_at<slot_id>(*reserve_pages(owner, 1), 0);
  EXPECT_FALSE(commit_slot(thief, slot));
  EXPECT_TRUE(commit_slot(owner, slot));
  EXPECT_FALSE(commit_slot(owner, slot)) << "a slot is committed once";
  EXPECT_FALSE(reserve_pages(12345, 1));
}

TEST_F(gateway_actor_test, a_silent_session_keeps_its_slots_while_its_process_lives) {
  reserve_pages(open(), 3);
  lose_connection();
  pass(std::chrono::seconds(60));
  EXPECT_EQ(filling(), 3u);
  process_is_dead = true;
  pass(std::chrono::seconds(1));
  EXPECT_EQ(filling(), 0u);
}

TEST_F(gateway_actor_test, a_session_that_ends_in_good_order_gives_its_slots_back) {
  auto session = open();
  auto slots = reserve_pages(session, 3);
  caf::anon_send(gateway, abandon_atom_v, session, slots->substr(0, sizeof(slot_id)));
  settle();
  EXPECT_EQ(filling(), 2u);
  caf::anon_send(gateway, leave_atom_v, session);
  settle();
  EXPECT_EQ(filling(), 0u);
}

TEST_F(gateway_actor_test, is_ready_while_it_is_in_the_view_and_not_draining) {
  caf::anon_send(gateway, topology_atom_v, topology_of({{there, shard_there}}, 1));
  settle();
  EXPECT_EQ(readiness, "joining: no view with this node in it yet");
  tell_everyone(both(2));
  caf::anon_send(gateway, topology_atom_v, both(2));
  settle();
  EXPECT_EQ(readiness, "ready");
  EXPECT_TRUE(ask<bool>(gateway, drain_atom_v));
  EXPECT_EQ(readiness, "draining");
  EXPECT_FALSE(reserve_pages(open(), 1));
}

/// While a starting node reads its disk, its /readyz must say that it is not ready.
TEST_F(gateway_actor_test, is_not_ready_before_the_disk_was_scanned) {
  disk_scanned = 0.5;
  tell_everyone(both(2));
  caf::anon_send(gateway, topology_atom_v, both(2));
  settle();
  EXPECT_EQ(readiness, "disk tier: scanned 50 %");
  disk_scanned = 0.999;
  pass(std::chrono::seconds(1));
  EXPECT_EQ(readiness, "disk tier: scanned 99 %");
  disk_scanned = 1;
  pass(std::chrono::seconds(1));
  EXPECT_EQ(readiness, "ready");
}

TEST_F(gateway_actor_test, a_drained_node_takes_no_pages_until_it_takes_part_again) {
  tell_everyone(both(2));
  caf::anon_send(gateway, topology_atom_v, both(2));
  settle();
  auto session = open();
  EXPECT_TRUE(ask<drain_report>(gateway, drain_atom_v, true));
  EXPECT_TRUE(draining);
  EXPECT_EQ(readiness, "drained: it owns no keys and takes no pages (peercache undrain)");
  EXPECT_FALSE(reserve_pages(session, 1));
  EXPECT_TRUE(ask<drain_report>(gateway, drain_atom_v, false));
  EXPECT_FALSE(draining);
  EXPECT_EQ(readiness, "ready");
  EXPECT_TRUE(reserve_pages(session, 1));
  EXPECT_TRUE(ask<bool>(gateway, drain_atom_v));
  EXPECT_FALSE(ask<drain_report>(gateway, drain_atom_v, false)) << "it leaves for good";
}

TEST_F(gateway_actor_test, a_drain_that_is_taken_back_while_records_go_is_not_announced) {
  tell_everyone(both(2));
  caf::anon_send(gateway, topology_atom_v, both(2));
  settle();
  caf::anon_send(gateway, drain_atom_v, true);
  caf::anon_send(gateway, drain_atom_v, false);
  settle();
  EXPECT_FALSE(draining);
  EXPECT_EQ(readiness, "ready");
}

TEST_F(gateway_actor_test, a_drained_node_commits_what_was_filled_and_gives_no_slots_for_more) {
  tell_everyone(both());
  auto session = open();
  auto slots = reserve_pages(session, 2);
  std::string one_more;
  append_record(one_more, std::uint32_t{4096});
  EXPECT_TRUE(commit_slot(session, record_at<slot_id>(*slots, 0), one_more));
  EXPECT_EQ(filling(), 2u);
  EXPECT_TRUE(ask<drain_report>(gateway, drain_atom_v, true));
  EXPECT_TRUE(commit_slot(session, record_at<slot_id>(*slots, 1), one_more));
  EXPECT_EQ(filling(), 1u);
}

TEST_F(gateway_actor_test, adds_up_what_its_clients_report) {
  const auto first = open();
  const auto second = open();
  metrics::samples said;
  said.set(metric::view_refreshes_total, 5);
  said.set(metric::breakers_open, 2);
  for (const auto session : {first, second})
    caf::anon_send(gateway, report_atom_v, session, said);
  const auto sum = [this] { return ask<node_report>(gateway, status_atom_v)->samples; };
  EXPECT_EQ(sum().count(metric::view_refreshes_total), 10u);
  EXPECT_EQ(sum().count(metric::breakers_open), 4u);
  caf::anon_send(gateway, leave_atom_v, first);
  EXPECT_EQ(sum().count(metric::view_refreshes_total), 10u) << "what it counted stays";
  EXPECT_EQ(sum().count(metric::breakers_open), 2u) << "what it is now does not";
  EXPECT_EQ(sum().count(metric::sessions), 1u);
}

/// The holder does not notice one-sided READs. So readers report them, and the holder counts
/// reports that can be true.
TEST_F(gateway_actor_test, pages_that_others_read_outlive_those_that_nobody_reads) {
  tell_everyone(both());
  for (const auto* name : {"read", "misread", "unread"})
    ASSERT_EQ(put(key_named(name)), page_status::stored);
  const auto here_is = [this](const char* name) {
    auto found = locations(shard_here, key_named(name));
    return found.empty() ? directory::page_location{} : found[0];
  };
  const auto read = here_is("read");
  const auto misread = here_is("misread");
  for (int i = 0; i < 200; ++i) {
    std::string used;
    append_record(used, used_page{.gen = read.gen, .slot = read.slot});
    append_record(used, used_page{.gen = {misread.gen.value - 2}, .slot = misread.slot});
    append_record(used, used_page{.gen = {2}, .slot = {0xffffffff}});
    caf::anon_send(gateway, used_atom_v, used, from_here{});
    caf::anon_send(gateway, used_atom_v, used + "no record", from_here{});
    ASSERT_EQ(put(key_named(std::to_string(i))), page_status::stored);
  }
  pass(std::chrono::milliseconds(200));
  EXPECT_EQ(here_is("read").gen, read.gen);
  for (const auto* lost : {"misread", "unread"})
    EXPECT_TRUE(locations(shard_here, key_named(lost)).empty()) << lost;
}

TEST_F(gateway_actor_test, lets_no_client_in_before_it_has_caught_up) {
  caught_up = false;
  tell_everyone(both(2));
  caf::anon_send(gateway, topology_atom_v, both(2));
  settle();
  EXPECT_EQ(readiness, "joining: no member has told it yet which spaces were cleared");
  const auto ask_in = [this] {
    return self->request(gateway, caf::infinite, session_atom_v, std::string{"client"}, client);
  };
  auto first = ask_in();
  auto again = ask_in(); // The client asks again, because its first request has timed out.
  settle();
  int let_in = 0;
  first.receive([&](const session_welcome&) { ++let_in; }, [](const caf::error&) {});
  EXPECT_EQ(let_in, 0) << "its answer would open a session that nobody uses";
  caught_up = true;
  caf::anon_send(gateway, tell_atom_v, from_here{});
  settle();
  again.receive([&](const session_welcome&) { ++let_in; }, [](const caf::error&) {});
  EXPECT_EQ(let_in, 1);
  EXPECT_EQ(readiness, "ready");
}

TEST_F(gateway_actor_test, sends_a_client_away_that_has_waited_too_long_for_it_to_catch_up) {
  caught_up = false;
  auto early = self->request(gateway, caf::infinite, session_atom_v, std::string{"client"}, client);
  settle();
  for (int beats = 0; beats < 3; ++beats)
    pass(std::chrono::milliseconds(500));
  bool refused = false;
  early.receive([](const session_welcome&) {}, [&](const caf::error&) { refused = true; });
  EXPECT_TRUE(refused);
}

TEST_F(gateway_actor_test, its_status_has_all_parts) {
  tell_everyone(both());
  put(key_named("a"));
  auto report = ask<node_report>(gateway, status_atom_v);
  ASSERT_TRUE(report);
  EXPECT_EQ(discovery::decode_member(report->member)->name, "here");
  EXPECT_EQ(report->samples.count(metric::pool_pages), 1u);
  EXPECT_EQ(report->samples.count(metric::directory_records), 1u);
  EXPECT_EQ(report->samples.value(metric::disk_scanned_ratio), 1) << "it has no disk to scan";
  EXPECT_EQ(report->directory.records_of["here"], 1u);
  EXPECT_TRUE(report->silent.empty());
}

} // namespace
} // namespace peercache::actors
