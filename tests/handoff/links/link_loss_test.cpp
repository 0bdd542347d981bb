#include "tests/handoff/links/link_world.hpp"

namespace peercache::handoff::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

class link_loss_test : public link_world {
protected:
  /// Returns an offer that is larger than a socket's send buffer.
  static offer long_offer() {
    auto made = offer_of(1);
    made.pages.states.resize(limits::state_components_max);
    for (auto& states : made.pages.states)
      states.items.assign(limits::room_pages_max, 2);
    return made;
  }
  /// Lets time pass, and expects one loss only, of `peer` for this reason, and no event of the peer
  /// after it.
  void expect_one_loss(const test_worker& at, peer_id peer, loss_reason reason) {
    pass(seconds(10), milliseconds(400));
    const auto lost = at.loss();
    EXPECT_EQ(lost.peer, peer);
    EXPECT_EQ(to_string(lost.reason), to_string(reason)) << lost.detail;
    EXPECT_FALSE(lost.detail.empty());
    EXPECT_EQ(at.seen.back(), link_event(lost)) << "nothing comes from a peer that was lost";
    EXPECT_EQ(at.links->connections(), 0u);
    EXPECT_EQ(at.links->stats().lost, 1u);
  }
};

TEST_F(link_loss_test, nobody_at_the_address_is_unreachable) {
  auto& decode = start(engine_side::decode, 1);
  const auto held = net::hold_port("127.0.0.1", 0);
  ASSERT_TRUE(held);
  const auto peer = decode.links->connect({"127.0.0.1", net::local_port(*held)}, std::nullopt, now);
  ASSERT_TRUE(peer) << peer.error().message;
  ASSERT_TRUE(run_until([&] { return decode.lost() == 1; }));
  expect_one_loss(decode, *peer, loss_reason::unreachable);
}

TEST_F(link_loss_test, a_connection_that_does_not_come_about_is_unreachable_in_time) {
  auto& decode = start(engine_side::decode, 1);
  // The listener's queue is full, so the kernel answers no further connect.
  const auto listener = net::listen_on("127.0.0.1", 0, 0);
  ASSERT_TRUE(listener);
  const auto port = net::local_port(*listener);
  const auto filler = net::start_connect("127.0.0.1", port, {});
  const auto more = net::start_connect("127.0.0.1", port, {});
  const auto peer = decode.links->connect({"127.0.0.1", port}, std::nullopt, now);
  ASSERT_TRUE(peer);
  pass(milliseconds(1999), milliseconds(1999));
  EXPECT_EQ(decode.lost(), 0u);
  pass(milliseconds(1), milliseconds(1));
  expect_one_loss(decode, *peer, loss_reason::unreachable);
}

TEST_F(link_loss_test, a_listener_that_never_says_hello_is_silent) {
  auto& decode = start(engine_side::decode, 1);
  const auto listener = net::listen_on("127.0.0.1", 0, 8);
  ASSERT_TRUE(listener);
  const auto peer =
      decode.links->connect({"127.0.0.1", net::local_port(*listener)}, std::nullopt, now);
  ASSERT_TRUE(peer);
  pass(milliseconds(1999), milliseconds(333));
  EXPECT_EQ(decode.lost(), 0u);
  pass(milliseconds(1), milliseconds(1));
  expect_one_loss(decode, *peer, loss_reason::silent);
}

TEST_F(link_loss_test, an_address_that_is_none_is_an_error_and_no_event) {
  auto& decode = start(engine_side::decode, 1);
  const auto peer = decode.links->connect({"a.name", 1}, std::nullopt, now);
  ASSERT_FALSE(peer);
  EXPECT_EQ(peer.error().code, errc::invalid_argument);
  settle();
  EXPECT_TRUE(decode.seen.empty());
}

TEST_F(link_loss_test, the_end_of_a_process_is_closed) {
  auto& decode = start(engine_side::decode, 1);
  auto& prefill = start(engine_side::prefill, 2);
  const auto at_prefill = join(decode, prefill).second;
  decode.frozen = true;
  decode.links.reset();
  ASSERT_TRUE(run_until([&] { return prefill.lost() == 1; }));
  expect_one_loss(prefill, at_prefill, loss_reason::closed);
}

TEST_F(link_loss_test, a_reset_is_closed_and_what_came_before_it_is_told_first) {
  auto& prefill = start(engine_side::prefill, 2);
  auto peer = dial_and_join(prefill, 1);
  const auto at_prefill = prefill.all<peer_joined>().front().peer;
  prefill.links->send(at_prefill, offer_of(1), now);
  // Delivers bytes that the peer does not read, so that the kernel ends its connection by a reset.
  settle();
  peer.send(raw_peer::framed(join_of(6)) + raw_peer::framed(join_of(7)));
  peer.close();
  prefill.links->send(at_prefill, offer_of(2), now);
  ASSERT_TRUE(run_until([&] { return prefill.lost() == 1; }));
  EXPECT_EQ(prefill.all<peer_said>().size(), 2u);
  expect_one_loss(prefill, at_prefill, loss_reason::closed);
}

TEST_F(link_loss_test, silence_is_found_after_two_seconds_and_not_before) {
  auto& decode = start(engine_side::decode, 1);
  auto& prefill = start(engine_side::prefill, 2);
  const auto at_decode = join(decode, prefill).first;
  settle();
  prefill.frozen = true;
  pass(milliseconds(1999), milliseconds(100));
  EXPECT_EQ(decode.lost(), 0u);
  pass(milliseconds(1), milliseconds(1));
  expect_one_loss(decode, at_decode, loss_reason::silent);
}

TEST_F(link_loss_test, any_message_is_a_sign_of_life) {
  auto& prefill = start(engine_side::prefill, 2);
  auto peer = dial_and_join(prefill, 1);
  for (int i = 0; i < 10; ++i) {
    now += milliseconds(1900);
    peer.send(raw_peer::framed(join_of(1)).substr(0, i % 2 == 0 ? 20 : std::string::npos));
    if (i % 2 == 0)
      peer.send(raw_peer::framed(join_of(1)).substr(20));
    settle();
  }
  EXPECT_EQ(prefill.lost(), 0u);
  EXPECT_EQ(prefill.all<peer_said>().size(), 10u);
}

TEST_F(link_loss_test, a_worker_that_was_frozen_reads_before_it_finds_others_silent) {
  auto& decode = start(engine_side::decode, 1);
  auto& prefill = start(engine_side::prefill, 2);
  const auto [at_decode, at_prefill] = join(decode, prefill);
  settle();
  decode.frozen = true;
  prefill.links->send(at_prefill, offer_of(1), now);
  pass(milliseconds(1000), milliseconds(500));
  // Suspends prefill, too, so that prefill has not yet given decode up when decode wakes.
  prefill.frozen = true;
  now += seconds(60);
  decode.frozen = false;
  settle();
  EXPECT_EQ(decode.lost(), 0u) << "beats and an offer lay in its socket";
  EXPECT_EQ(decode.all<peer_said>().size(), 1u);
  prefill.frozen = false;
  settle();
  EXPECT_EQ(prefill.lost(), 0u) << "decode has sent a beat since";
  pass(seconds(10), milliseconds(500));
  EXPECT_EQ(decode.lost() + prefill.lost(), 0u);
  prefill.links->send(at_prefill, offer_of(2), now);
  ASSERT_TRUE(run_until([&] { return decode.all<peer_said>().size() == 2; }));
  EXPECT_EQ(decode.all<peer_said>().back().peer, at_decode);
}

TEST_F(link_loss_test, a_worker_that_wakes_behind_many_others_looks_at_each_socket) {
  auto& prefill = start(engine_side::prefill, 2);
  std::vector<raw_peer> peers;
  // More peers than one epoll_wait of the worker reports events of.
  for (std::uint64_t i = 0; i < 300; ++i)
    peers.push_back(dial_and_join(prefill, 100 + i));
  prefill.frozen = true;
  for (auto& peer : peers)
    peer.send(raw_peer::framed(beat{}));
  settle();
  now += seconds(60);
  prefill.frozen = false;
  settle();
  EXPECT_EQ(prefill.lost(), 0u);
}

TEST_F(link_loss_test, a_worker_that_was_frozen_and_finds_the_connection_ended_says_lost) {
  auto& decode = start(engine_side::decode, 1);
  auto& prefill = start(engine_side::prefill, 2);
  const auto [at_decode, at_prefill] = join(decode, prefill);
  settle();
  decode.frozen = true;
  prefill.links->send(at_prefill, offer_of(1), now);
  pass(seconds(5), milliseconds(250));
  EXPECT_EQ(prefill.loss().reason, loss_reason::silent);
  decode.frozen = false;
  settle();
  EXPECT_EQ(decode.all<peer_said>().size(), 1u) << "the offer was there before the end";
  expect_one_loss(decode, at_decode, loss_reason::closed);
}

TEST_F(link_loss_test, a_worker_that_was_frozen_and_finds_nothing_says_silent) {
  auto& decode = start(engine_side::decode, 1);
  auto& prefill = start(engine_side::prefill, 2);
  const auto at_decode = join(decode, prefill).first;
  settle();
  prefill.frozen = true;
  now += seconds(60);
  settle();
  expect_one_loss(decode, at_decode, loss_reason::silent);
}

TEST_F(link_loss_test, a_peer_that_does_not_read_is_lost_when_its_queue_is_full) {
  auto& prefill = start(engine_side::prefill, 2, {.queue_bytes_max = 1u << 20});
  auto peer = dial_and_join(prefill, 1);
  const auto at_prefill = prefill.all<peer_joined>().front().peer;
  auto offered = offer_of(1);
  offered.pages.pages.assign(limits::offer_pages_max, 1);
  std::size_t sent = 0;
  ASSERT_TRUE(run_until([&] {
    prefill.links->send(at_prefill, offered, now);
    ++sent;
    return prefill.lost() == 1;
  }));
  EXPECT_GT(sent, (1u << 20) / encode(offered).size()) << "the socket has room too";
  expect_one_loss(prefill, at_prefill, loss_reason::queue_full);
}

/// Limit in these tests for how long the other side may accept no byte, which the kernel itself
/// enforces (TCP_USER_TIMEOUT).
constexpr milliseconds kernel_patience(300);

TEST_F(link_loss_test, a_worker_that_lives_and_does_not_read_is_told_from_a_host_that_is_gone) {
  auto& prefill = start(engine_side::prefill, 2, {.silence_max = kernel_patience});
  auto peer = dial_and_join(prefill, 1);
  const auto at_prefill = prefill.all<peer_joined>().front().peer;
  prefill.links->send(at_prefill, long_offer(), now);
  now += kernel_patience - milliseconds(1);
  peer.send(raw_peer::framed(beat{}));
  ASSERT_TRUE(run_until([&] { return prefill.lost() == 1; }));
  EXPECT_THAT(prefill.loss().detail, HasSubstr("lives and does not read what it is sent"));
  expect_one_loss(prefill, at_prefill, loss_reason::queue_full);
}

TEST_F(link_loss_test, a_worker_that_neither_reads_nor_says_anything_may_be_gone_with_its_host) {
  auto& prefill = start(engine_side::prefill, 2, {.silence_max = kernel_patience});
  auto peer = dial_and_join(prefill, 1);
  const auto at_prefill = prefill.all<peer_joined>().front().peer;
  prefill.links->send(at_prefill, long_offer(), now);
  now += kernel_patience - milliseconds(1);
  ASSERT_TRUE(run_until([&] { return prefill.lost() == 1; }));
  EXPECT_THAT(prefill.loss().detail, HasSubstr("its host is gone, or its process stands still"));
  expect_one_loss(prefill, at_prefill, loss_reason::silent);
}

TEST_F(link_loss_test, beats_do_not_fill_the_queue_of_a_peer_that_does_not_read) {
  auto& prefill = start(engine_side::prefill, 2, {.silence_max = std::chrono::hours(1)});
  auto peer = dial_and_join(prefill, 1);
  const auto at_prefill = prefill.all<peer_joined>().front().peer;
  prefill.links->send(at_prefill, long_offer(), now);
  pass(seconds(50), milliseconds(500));
  EXPECT_EQ(prefill.lost(), 0u);
  ASSERT_TRUE(run_until([&] { return peer.received().size() >= 2; }));
  settle();
  EXPECT_LE(peer.received().size(), 3u) << "hello, the offer, and no beat for each half second";
}

TEST_F(link_loss_test, another_version_is_refused_and_both_sides_can_say_so) {
  auto& prefill = start(engine_side::prefill, 2);
  auto peer = dial(prefill);
  auto bytes = encode(hello_of(engine_side::decode, 1));
  bytes[1] = 77;
  peer.send(raw_peer::framed(bytes));
  ASSERT_TRUE(run_until([&] { return !peer.received().empty() && peer.ended(); }));
  const auto* said = std::get_if<refusal>(&peer.received().front());
  ASSERT_NE(said, nullptr) << "before any hello";
  EXPECT_THAT(said->reason,
              HasSubstr("version 77 and not " + std::to_string(handoff_wire_version)));
  settle();
  EXPECT_TRUE(prefill.seen.empty()) << "nobody has joined";
  peer.close();
  EXPECT_TRUE(run_until([&] { return prefill.links->connections() == 0; }));
}

TEST_F(link_loss_test, an_answer_of_another_version_is_refused_and_both_sides_can_say_so) {
  auto& decode = start(engine_side::decode, 1);
  const auto listener = net::listen_on("127.0.0.1", 0, 8);
  ASSERT_TRUE(listener);
  const auto id =
      decode.links->connect({"127.0.0.1", net::local_port(*listener)}, std::nullopt, now);
  ASSERT_TRUE(id);
  net::unique_fd accepted;
  ASSERT_TRUE(run_until([&] { return bool(accepted = net::accept_from(*listener, {})); }));
  raw_peer peer(std::move(accepted));
  ASSERT_TRUE(run_until([&] { return peer.received().size() == 1; })) << "its hello";
  auto bytes = encode(hello_of(engine_side::prefill, 2));
  bytes[1] = 77;
  peer.send(raw_peer::framed(bytes));
  ASSERT_TRUE(run_until([&] { return peer.received().size() == 2; }));
  EXPECT_TRUE(std::holds_alternative<refusal>(peer.received().back()));
  EXPECT_THAT(decode.loss().detail,
              HasSubstr("version 77 and not " + std::to_string(handoff_wire_version)));
  expect_one_loss(decode, *id, loss_reason::refused);
}

TEST_F(link_loss_test, another_cluster_is_refused_and_both_sides_can_say_so) {
  auto& decode = start(engine_side::decode, 1, {}, "east");
  auto& prefill = start(engine_side::prefill, 2, {}, "west");
  const auto peer = decode.links->connect(prefill.address(), std::nullopt, now);
  ASSERT_TRUE(peer);
  ASSERT_TRUE(run_until([&] { return decode.lost() == 1; }));
  EXPECT_THAT(decode.loss().detail, HasSubstr("of cluster 'west', the other of 'east'"));
  EXPECT_TRUE(prefill.seen.empty());
  expect_one_loss(decode, *peer, loss_reason::refused);
}

TEST_F(link_loss_test, another_process_than_was_meant_is_refused_and_both_sides_can_say_so) {
  auto& decode = start(engine_side::decode, 1);
  auto& prefill = start(engine_side::prefill, 2);
  const auto peer = decode.links->connect(prefill.address(), incarnation{9, 9}, now);
  ASSERT_TRUE(peer);
  ASSERT_TRUE(run_until([&] { return decode.lost() == 1 && prefill.lost() == 1; }));
  EXPECT_EQ(decode.joined(), 0u);
  EXPECT_EQ(prefill.loss().reason, loss_reason::refused);
  for (const auto* worker : {&decode, &prefill})
    EXPECT_THAT(worker->loss().detail,
                HasSubstr("process " + to_string(incarnation{9, 9}) + " was meant"));
  expect_one_loss(decode, *peer, loss_reason::refused);
}

TEST_F(link_loss_test, a_worker_refuses_itself) {
  auto& decode = start(engine_side::decode, 1);
  const auto peer = decode.links->connect(decode.address(), std::nullopt, now);
  ASSERT_TRUE(peer);
  ASSERT_TRUE(run_until([&] { return decode.lost() == 1; }));
  expect_one_loss(decode, *peer, loss_reason::refused);
}

TEST_F(link_loss_test, a_worker_of_the_same_side_is_refused_and_both_sides_can_say_so) {
  for (const auto side : {engine_side::prefill, engine_side::decode}) {
    auto& one = start(side, 10 * workers.size() + 1);
    auto& two = start(side, 10 * workers.size() + 1);
    const auto peer = one.links->connect(two.address(), std::nullopt, now);
    ASSERT_TRUE(peer);
    ASSERT_TRUE(run_until([&] { return one.lost() == 1; }));
    EXPECT_THAT(one.loss().detail, HasSubstr("the other worker refuses: both workers are of " +
                                             std::string(to_string(side))));
    EXPECT_TRUE(two.seen.empty());
    expect_one_loss(one, *peer, loss_reason::refused);
  }
}

TEST_F(link_loss_test, an_answer_of_the_same_side_is_refused) {
  auto& decode = start(engine_side::decode, 1);
  const auto listener = net::listen_on("127.0.0.1", 0, 8);
  ASSERT_TRUE(listener);
  const auto id =
      decode.links->connect({"127.0.0.1", net::local_port(*listener)}, std::nullopt, now);
  ASSERT_TRUE(id);
  net::unique_fd accepted;
  ASSERT_TRUE(run_until([&] { return bool(accepted = net::accept_from(*listener, {})); }));
  raw_peer peer(std::move(accepted));
  peer.send(raw_peer::framed(hello_of(engine_side::decode, 2)));
  ASSERT_TRUE(run_until([&] { return decode.lost() == 1; }));
  EXPECT_THAT(decode.loss().detail, HasSubstr("both workers are of decode"));
  expect_one_loss(decode, *id, loss_reason::refused);
}

TEST_F(link_loss_test, above_the_limit_of_connections_others_are_refused_in_words) {
  auto& prefill = start(engine_side::prefill, 2, {.links_max = 2});
  auto& one = start(engine_side::decode, 3);
  auto& two = start(engine_side::decode, 4);
  auto& three = start(engine_side::decode, 5);
  join(one, prefill);
  join(two, prefill);
  ASSERT_TRUE(three.links->connect(prefill.address(), std::nullopt, now));
  ASSERT_TRUE(run_until([&] { return three.lost() == 1; }));
  EXPECT_EQ(three.loss().reason, loss_reason::refused);
  EXPECT_THAT(three.loss().detail, HasSubstr("has 2 connections to others"));
  EXPECT_EQ(prefill.links->connect(one.address(), std::nullopt, now).error().code, errc::refused);
  one.links->close();
  ASSERT_TRUE(run_until([&] { return prefill.lost() == 1; }));
  join(three, prefill);
}

TEST_F(link_loss_test, no_more_than_the_limit_join_of_those_that_came_before_it_was_reached) {
  auto& prefill = start(engine_side::prefill, 2, {.links_max = 2});
  std::vector<raw_peer> peers;
  for (int i = 0; i < 4; ++i)
    peers.push_back(dial(prefill));
  ASSERT_TRUE(run_until([&] { return prefill.links->strangers() == 4; }));
  for (std::size_t i = 0; i < peers.size(); ++i)
    peers[i].send(raw_peer::framed(hello_of(engine_side::decode, 10 + i)));
  ASSERT_TRUE(run_until([&] { return prefill.links->stats().turned_away == 2; }));
  EXPECT_EQ(prefill.joined(), 2u);
}

} // namespace
} // namespace peercache::handoff::testing
