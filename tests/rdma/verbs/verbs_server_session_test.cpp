// Tests of how a rail server's sessions with readers end: readers that leave, freeze, lie or come
// again, and ports that go down.

#include "tests/rdma/verbs/verbs_rail_rig.hpp"

#include <random>

namespace peercache::rdma::verbs_server_session_test {
namespace {

using namespace std::chrono_literals;

class verbs_server_session_test : public verbs_rail_rig {
protected:
  void SetUp() override {
    serve();
    register_all();
  }

  std::uint32_t half_open() { return stats().half_open; }
};

TEST_F(verbs_server_session_test, a_reader_that_leaves_takes_its_queue_pair_with_it) {
  const auto stays = established("a");
  const auto leaves = established("b");
  leaves->peer.fd.reset();
  settle();
  EXPECT_FALSE(served(*leaves));
  EXPECT_TRUE(served(*stays));
  EXPECT_EQ(ended(session_end::closed), 1u);
  const auto left = readers();
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(left[0].name, "a");
  EXPECT_EQ(stays->read(stays->chunks[0]), IBV_WC_SUCCESS);
}

TEST_F(verbs_server_session_test, the_queue_pair_is_gone_when_the_reader_sees_the_end) {
  const auto reader = established();
  server.reset();
  EXPECT_TRUE(reader->told_end());
  EXPECT_FALSE(served(*reader));
  EXPECT_EQ(reader->read(reader->chunks[0]), IBV_WC_RETRY_EXC_ERR);
}

TEST_F(verbs_server_session_test, who_is_not_ready_in_time_is_ended) {
  auto silent = new_reader("silent"), trickling = new_reader("trickling");
  silent->come(*server);
  trickling->come(*server);
  settle();
  silent->connect();
  trickling->connect();
  EXPECT_EQ(half_open(), 2u);
  const verbs_ready ready;
  for (std::size_t i = 0; i < 5; ++i) {
    trickling->peer.send(std::as_bytes(std::span(&ready, 1)).subspan(i, 1));
    pass(300ms);
  }
  EXPECT_TRUE(served(*silent) && served(*trickling));
  pass(400ms);
  EXPECT_FALSE(served(*silent) || served(*trickling)) << "a byte now and then buys no time";
  EXPECT_EQ(ended(session_end::no_ready), 2u);
  EXPECT_EQ(half_open(), 0u);
}

TEST_F(verbs_server_session_test, an_established_session_outlives_the_hello_timeout) {
  const auto reader = established();
  EXPECT_EQ(half_open(), 0u);
  EXPECT_EQ(stats().established, 1u);
  pass(10s);
  EXPECT_TRUE(served(*reader));
}

TEST_F(verbs_server_session_test, whoever_says_anything_after_ready_is_ended) {
  const auto reader = established();
  reader->peer.say(std::uint8_t{0});
  settle();
  EXPECT_FALSE(served(*reader));
  EXPECT_TRUE(reader->told_end());
  EXPECT_EQ(ended(session_end::violation), 1u);
}

TEST_F(verbs_server_session_test, two_ready_messages_in_one_piece_are_one_too_many) {
  auto reader = new_reader();
  reader->come(*server);
  settle();
  reader->connect();
  const std::array<verbs_ready, 2> twice;
  reader->peer.say(twice);
  settle();
  EXPECT_FALSE(served(*reader));
  EXPECT_EQ(ended(session_end::violation), 1u);
}

TEST_F(verbs_server_session_test, hostile_bytes_never_make_a_session) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 300; ++round) {
    auto reader = new_reader();
    reader->come(*server);
    settle();
    reader->connect();
    verbs_ready ready;
    auto bytes = std::as_writable_bytes(std::span(&ready, 1));
    bytes[random() % bytes.size()] ^= static_cast<std::byte>(1 + random() % 255);
    const auto cut = random() % (bytes.size() + 1);
    reader->peer.send(bytes.first(cut));
    if (random() % 2 == 0)
      settle();
    reader->peer.send(bytes.subspan(cut));
    settle();
    ASSERT_FALSE(served(*reader));
  }
  EXPECT_EQ(stats().established, 0u);
  EXPECT_EQ(ended(session_end::violation), 300u);
  EXPECT_TRUE(fabric.objects().queue_pairs == 0);
}

TEST_F(verbs_server_session_test, a_newer_incarnation_ends_what_the_older_one_left) {
  const auto old_first = established("rank-0", {1, 0});
  const auto old_second = established("rank-0", {1, 0});
  const auto other = established("rank-1", {1, 0});
  EXPECT_EQ(readers().size(), 2u);
  const auto fresh = established("rank-0", {2, 0});
  EXPECT_FALSE(served(*old_first) || served(*old_second));
  EXPECT_TRUE(served(*other) && served(*fresh));
  EXPECT_TRUE(old_first->told_end());
  EXPECT_EQ(ended(session_end::replaced), 2u);
  for (const auto& each : readers())
    EXPECT_EQ(each.sessions, 1u) << each.name;
}

TEST_F(verbs_server_session_test, readers_without_a_name_do_not_replace_each_other) {
  const auto first = established("", {1, 0});
  const auto second = established("", {2, 0});
  EXPECT_TRUE(served(*first) && served(*second));
}

TEST_F(verbs_server_session_test, a_wrong_hello_replaces_nobody) {
  const auto reader = established("rank-0", {1, 0});
  auto stranger = new_reader("rank-0");
  stranger->greeting.reader = {2, 0};
  stranger->greeting.cluster = 0;
  EXPECT_EQ(verdict_for(*stranger), verbs_verdict::other_cluster);
  EXPECT_TRUE(served(*reader));
}

TEST_F(verbs_server_session_test, a_reader_that_reads_nothing_for_long_is_ended) {
  const auto frozen = established("frozen"), reads = established("reads");
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(reads->read(reads->chunks[0]), IBV_WC_SUCCESS);
    pass(30s);
  }
  EXPECT_FALSE(served(*frozen));
  EXPECT_TRUE(served(*reads));
  EXPECT_EQ(ended(session_end::idle), 1u);
}

TEST_F(verbs_server_session_test, one_read_in_the_idle_timeout_is_enough) {
  const auto reader = established();
  for (int i = 0; i < 5; ++i) {
    for (int part = 0; part < 10; ++part)
      pass(29s);
    ASSERT_TRUE(served(*reader)) << i;
    EXPECT_EQ(reader->read(reader->chunks[0]), IBV_WC_SUCCESS);
  }
}

TEST_F(verbs_server_session_test, a_port_that_goes_down_ends_all_and_serves_again_when_it_is_back) {
  const auto reader = established();
  fabric.set_port_state("nic0", 1, IBV_PORT_DOWN);
  settle();
  EXPECT_FALSE(served(*reader));
  EXPECT_TRUE(reader->told_end()) << "so that it moves to another rail";
  auto seen = stats();
  EXPECT_FALSE(seen.serving);
  EXPECT_EQ(seen.why_not, "port down");
  EXPECT_EQ(seen.sessions, 0u);
  auto next = new_reader();
  EXPECT_EQ(verdict_for(*next), verbs_verdict::no_device);
  fabric.set_port_state("nic0", 1, IBV_PORT_ACTIVE);
  settle();
  seen = stats();
  EXPECT_TRUE(seen.serving);
  EXPECT_EQ(seen.why_not, "");
  const auto again = established();
  EXPECT_EQ(again->read(again->chunks[0]), IBV_WC_SUCCESS);
  EXPECT_EQ(ended(session_end::rail_down), 1u);
}

TEST_F(verbs_server_session_test, half_open_sessions_end_with_the_port_too) {
  auto reader = new_reader();
  reader->come(*server);
  settle();
  EXPECT_EQ(half_open(), 1u);
  fabric.set_port_state("nic0", 1, IBV_PORT_DOWN);
  settle();
  EXPECT_EQ(half_open(), 0u);
  EXPECT_EQ(ended(session_end::rail_down), 1u);
}

TEST_F(verbs_server_session_test, a_device_that_fails_is_told_with_its_reason) {
  const auto reader = established();
  fabric.break_device("nic0");
  settle();
  EXPECT_FALSE(served(*reader));
  EXPECT_FALSE(stats().serving);
  EXPECT_EQ(stats().why_not, "device failed");
  auto next = new_reader();
  EXPECT_EQ(verdict_for(*next), verbs_verdict::no_device);
}

// -- tests of the limits of readers and sessions

class verbs_server_limits_test : public verbs_rail_rig {
protected:
  std::vector<std::unique_ptr<rail_reader>> arrive(std::size_t count) {
    std::vector<std::unique_ptr<rail_reader>> readers;
    for (std::size_t i = 0; i < count; ++i) {
      readers.push_back(new_reader("reader-" + std::to_string(i)));
      readers.back()->come(*server);
    }
    return readers;
  }
};

TEST_F(verbs_server_limits_test, a_storm_is_served_in_order_a_few_at_a_time) {
  auto options = rail_options();
  options.hellos_per_turn = 3;
  serve(options);
  auto readers = arrive(10);
  std::size_t heard = 0;
  for (const std::uint64_t expected : {3u, 6u, 9u, 10u, 10u}) {
    server->poll(now);
    EXPECT_EQ(pairs_made(), expected);
    while (heard < readers.size() && readers[heard]->peer.hear<verbs_answer>())
      ++heard;
    EXPECT_EQ(heard, expected) << "the oldest first";
  }
}

TEST_F(verbs_server_limits_test, it_does_not_sleep_while_somebody_waits) {
  auto options = rail_options();
  options.hellos_per_turn = 1;
  serve(options);
  const auto stay = established("stays");
  auto best = clock::duration::max();
  for (int round = 0; round < 3 && best >= 2s; ++round) {
    std::vector<std::unique_ptr<rail_reader>> strangers;
    for (int i = 0; i < 50; ++i) {
      strangers.push_back(new_reader());
      strangers.back()->greeting.cluster = 0;
      strangers.back()->come(*server);
    }
    const auto began = clock::now();
    for (int turn = 0; turn < 50; ++turn) {
      server->wait(1h);
      server->poll(now);
    }
    EXPECT_TRUE(strangers.back()->peer.hear<verbs_answer>());
    best = std::min(best, clock::now() - began);
  }
  EXPECT_LT(best, 2s) << "a nap of 100 ms before each";
}

TEST_F(verbs_server_limits_test, who_left_before_its_turn_costs_no_queue_pair) {
  serve();
  auto readers = arrive(3);
  readers[1]->peer.fd.reset();
  settle();
  EXPECT_EQ(pairs_made(), 2u);
  EXPECT_EQ(stats().left_early, 1u);
}

TEST_F(verbs_server_limits_test, above_the_limit_of_sessions_the_rail_is_busy) {
  auto options = rail_options();
  options.sessions_max = 2;
  serve(options);
  const auto first = established("a"), second = established("b");
  auto third = new_reader("c");
  EXPECT_EQ(verdict_for(*third), verbs_verdict::busy);
  EXPECT_TRUE(third->told_end());
  EXPECT_EQ(pairs_made(), 2u);
  first->peer.fd.reset();
  settle();
  auto fourth = new_reader("d");
  EXPECT_EQ(verdict_for(*fourth), verbs_verdict::accepted);
}

TEST_F(verbs_server_limits_test, a_reader_that_came_again_does_not_count_against_itself) {
  auto options = rail_options();
  options.sessions_max = 1;
  serve(options);
  const auto old = established("rank-0", {1, 0});
  const auto fresh = established("rank-0", {2, 0});
  EXPECT_TRUE(served(*fresh));
}

TEST_F(verbs_server_limits_test, above_the_limit_of_half_open_sessions_the_rail_is_busy) {
  auto options = rail_options();
  options.half_open_max = 2;
  serve(options);
  auto readers = arrive(2);
  settle();
  auto third = new_reader("c");
  EXPECT_EQ(verdict_for(*third), verbs_verdict::busy);
  readers[0]->connect();
  readers[0]->peer.say(verbs_ready{});
  settle();
  auto fourth = new_reader("d");
  EXPECT_EQ(verdict_for(*fourth), verbs_verdict::accepted);
}

TEST_F(verbs_server_limits_test, a_full_inbox_says_busy_at_once) {
  auto options = rail_options();
  options.inbox_max = 2;
  serve(options);
  auto readers = arrive(3);
  const auto heard = readers[2]->peer.hear<verbs_answer>();
  ASSERT_TRUE(heard) << "before any poll";
  EXPECT_EQ(heard->verdict, verbs_verdict::busy);
  EXPECT_TRUE(readers[2]->told_end());
  settle();
  EXPECT_EQ(pairs_made(), 2u);
  EXPECT_EQ(stats().hellos, 3u);
  EXPECT_EQ(stats().verdicts[static_cast<std::size_t>(verbs_verdict::busy)], 1u);
}

TEST_F(verbs_server_limits_test, who_takes_no_byte_for_long_is_ended) {
  serve(rail_options(), 3000);
  register_all();
  auto reader = new_reader();
  const int small = 4096;
  ::setsockopt(reader->servers_end.get(), SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
  reader->come(*server);
  settle();
  reader->connect();
  reader->peer.say(verbs_ready{});
  settle();
  pass(1900ms);
  EXPECT_TRUE(served(*reader));
  pass(200ms);
  EXPECT_FALSE(served(*reader));
  EXPECT_EQ(ended(session_end::stalled), 1u);
}

TEST_F(verbs_server_limits_test, idle_sessions_are_looked_at_a_few_at_a_time) {
  auto options = rail_options();
  options.looks_per_turn = 2;
  serve(options);
  std::vector<std::unique_ptr<rail_reader>> readers;
  for (int i = 0; i < 6; ++i)
    readers.push_back(established("reader-" + std::to_string(i)));
  pass(80s);
  pass(100ms);
  pass(100ms);
  EXPECT_EQ(server->stats().sessions, 6u) << "the first look only remembers";
  pass(310s);
  for (const auto left : {4u, 2u, 0u}) {
    EXPECT_EQ(server->stats().sessions, left);
    pass(100ms);
  }
}

} // namespace
} // namespace peercache::rdma::verbs_server_session_test
