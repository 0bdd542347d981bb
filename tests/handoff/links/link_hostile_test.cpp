#include "tests/handoff/links/link_world.hpp"

#include <random>

namespace peercache::handoff::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

class link_hostile_test : public link_world {
protected:
  /// Returns the loss that a new worker reports when a peer that has joined sends these bytes.
  peer_lost loss_after(const std::string& bytes) {
    auto& prefill = start(engine_side::prefill, 1000 + workers.size());
    auto peer = dial_and_join(prefill, 1);
    peer.send(bytes);
    EXPECT_TRUE(run_until([&] { return prefill.lost() == 1; }));
    // The peer receives the hello and a refusal with the reason, and then the end of the
    // connection.
    EXPECT_TRUE(run_until([&] { return peer.received().size() == 2 && peer.ended(); }));
    EXPECT_TRUE(std::holds_alternative<refusal>(peer.received().back()));
    return prefill.loss();
  }
};

TEST_F(link_hostile_test, messages_may_come_byte_by_byte) {
  auto& prefill = start(engine_side::prefill, 2);
  auto peer = dial(prefill);
  const auto bytes = raw_peer::framed(hello_of(engine_side::decode, 1)) +
                     raw_peer::framed(join_of(1)) + raw_peer::framed(beat{}) +
                     raw_peer::framed(offer_of(2)) + raw_peer::framed(done{{1}, {2}, 3, 4});
  for (const char byte : bytes) {
    EXPECT_EQ(peer.send({&byte, 1}), 1u);
    settle();
  }
  ASSERT_TRUE(run_until([&] { return prefill.seen.size() == 4; }));
  const auto said = prefill.all<peer_said>();
  EXPECT_EQ(said[0].what, message(join_of(1)));
  EXPECT_EQ(said[1].what, message(offer_of(2)));
  EXPECT_EQ(said[2].what, (message(done{{1}, {2}, 3, 4})));
}

TEST_F(link_hostile_test, more_than_the_socket_takes_at_once_arrives_whole) {
  auto& prefill = start(engine_side::prefill, 2);
  auto peer = dial_and_join(prefill, 1);
  const auto at_prefill = prefill.all<peer_joined>().front().peer;
  auto offered = offer_of(1);
  offered.pages.pages.assign(limits::offer_pages_max, 1);
  constexpr std::size_t messages = 300;
  for (std::size_t i = 0; i < messages; ++i)
    prefill.links->send(at_prefill, offered, now);
  ASSERT_TRUE(run_until([&] { return peer.received().size() == messages + 1; }));
  EXPECT_EQ(peer.received().back(), message(offered));
}

TEST_F(link_hostile_test, what_is_no_message_ends_the_connection_as_malformed) {
  const std::string too_long(4, '\xff');
  for (const auto& bytes :
       {too_long, raw_peer::framed(""), raw_peer::framed("\x07more"), raw_peer::framed("\x63"),
        raw_peer::framed(hello_of(engine_side::decode, 1))}) {
    const auto lost = loss_after(bytes + raw_peer::framed(join_of(1)));
    EXPECT_EQ(lost.reason, loss_reason::malformed) << lost.detail;
    EXPECT_TRUE(workers.back().all<peer_said>().empty());
  }
}

TEST_F(link_hostile_test, only_prefill_may_announce_a_long_message_and_nobody_before_a_hello) {
  const auto length = [](std::size_t bytes) {
    const auto number = static_cast<std::uint32_t>(bytes);
    return std::string(reinterpret_cast<const char*>(&number), sizeof number);
  };
  for (const auto side : {engine_side::prefill, engine_side::decode}) {
    auto& worker = start(side, 10 * workers.size() + 2);
    const auto most = side == engine_side::prefill ? short_message_bytes_max : message_bytes_max;
    auto allowed = dial_and_join(worker, 10 * workers.size() + 3);
    allowed.send(length(most));
    settle();
    EXPECT_EQ(worker.lost(), 0u);
    auto refused = dial_and_join(worker, 10 * workers.size() + 4);
    refused.send(length(most + 1));
    ASSERT_TRUE(run_until([&] { return worker.lost() == 1; }));
    EXPECT_EQ(worker.loss().reason, loss_reason::malformed);
    EXPECT_THAT(worker.loss().detail, HasSubstr("longer than any message"));
    auto stranger = dial(worker);
    stranger.send(length(short_message_bytes_max));
    EXPECT_TRUE(run_until([&] {
      stranger.received();
      return stranger.ended();
    }));
  }
}

TEST_F(link_hostile_test, what_a_peer_says_can_be_logged) {
  auto& prefill = start(engine_side::prefill, 2);
  auto peer = dial_and_join(prefill, 1);
  peer.send(raw_peer::framed(abort{{1}, {2}, "gone\n2026 info all is well"}) +
            raw_peer::framed(refusal{"no\x1b[2J\xff"}));
  ASSERT_TRUE(run_until([&] { return prefill.lost() == 1; }));
  EXPECT_EQ(prefill.all<peer_said>().front().what,
            message(abort{{1}, {2}, "gone?2026 info all is well"}));
  EXPECT_EQ(prefill.loss().detail, "the other worker refuses: no?[2J?");
  auto greeting = hello_of(engine_side::decode, 1);
  greeting.cluster = "we\nst";
  auto other = dial(prefill);
  other.send(raw_peer::framed(greeting));
  ASSERT_TRUE(run_until([&] { return !other.received().empty(); }));
  EXPECT_EQ(other.received().front(),
            message(refusal{"one worker is of cluster 'test', the other of 'we?st'"}));
}

TEST_F(link_hostile_test, who_does_not_begin_with_a_hello_never_joins) {
  auto& prefill = start(engine_side::prefill, 2);
  const auto good = raw_peer::framed(hello_of(engine_side::decode, 1));
  for (const auto& bytes : {raw_peer::framed(join_of(1)) + good, raw_peer::framed(beat{}) + good,
                            raw_peer::framed(refusal{"no"}) + good,
                            raw_peer::framed(std::string(2000, '\1')).substr(0, 100),
                            std::string("GET / HTTP/1.1\r\n\r\n")}) {
    auto peer = dial(prefill);
    peer.send(bytes);
    EXPECT_TRUE(run_until([&] {
      peer.received();
      return peer.ended();
    }));
  }
  EXPECT_TRUE(run_until([&] { return prefill.links->connections() == 0; }));
  EXPECT_TRUE(prefill.seen.empty());
}

TEST_F(link_hostile_test, random_bytes_cost_their_own_connection_at_most) {
  auto& prefill = start(engine_side::prefill, 2);
  auto& decode = start(engine_side::decode, 3);
  const auto [at_decode, at_prefill] = join(decode, prefill);
  for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    std::string bytes;
    for (auto frames = random() % 4; frames > 0; --frames)
      bytes += frames % 2 == 0 ? raw_peer::framed(hello_of(engine_side::decode, 100 + seed))
                               : raw_peer::framed(offer_of(random()));
    for (auto changes = random() % 4; changes > 0 && !bytes.empty(); --changes)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    for (auto more = random() % 40; more > 0; --more)
      bytes += static_cast<char>(random());
    auto peer = dial(prefill);
    for (std::size_t at = 0; at < bytes.size();) {
      const auto some = 1 + random() % bytes.size();
      peer.send(std::string_view(bytes).substr(at, some));
      at += some;
      run_until([] { return true; });
    }
    decode.links->send(at_decode, join_of(seed), now);
  }
  ASSERT_TRUE(run_until([&, id = at_prefill] {
    const auto said = prefill.all<peer_said>();
    return std::count_if(said.begin(), said.end(),
                         [&](const auto& each) { return each.peer == id; }) == 1000;
  }));
  EXPECT_EQ(decode.lost(), 0u);
  pass(seconds(5), milliseconds(250));
  EXPECT_EQ(prefill.links->connections(), 1u) << "all others have ended";
  // All peers that have joined were reported as lost once, except the last one, which is still
  // connected.
  EXPECT_EQ(prefill.joined(), prefill.lost() + 1);
  EXPECT_GT(prefill.lost(), 20u) << "some of them joined before they erred";
}

TEST_F(link_hostile_test, a_hundred_that_say_nothing_are_bounded_and_closed_in_time) {
  auto& prefill = start(engine_side::prefill, 2);
  std::vector<raw_peer> mute;
  for (int i = 0; i < 100; ++i)
    mute.push_back(dial(prefill));
  ASSERT_TRUE(run_until([&] { return prefill.links->stats().accepted == 100; }));
  EXPECT_EQ(prefill.links->strangers(), 64u);
  EXPECT_EQ(prefill.links->stats().turned_away, 36u);
  // A real worker, which says hello, must still get a place.
  auto& decode = start(engine_side::decode, 1);
  join(decode, prefill);
  EXPECT_LE(prefill.links->strangers(), 64u);
  pass(milliseconds(2000), milliseconds(500));
  EXPECT_EQ(prefill.links->strangers(), 0u);
  EXPECT_EQ(prefill.links->connections(), 1u);
  for (auto& peer : mute) {
    peer.received();
    EXPECT_TRUE(peer.ended());
  }
  EXPECT_EQ(prefill.lost(), 0u) << "nobody knew of them";
  EXPECT_EQ(decode.lost(), 0u);
}

TEST_F(link_hostile_test, a_hello_among_many_that_say_nothing_is_heard) {
  auto& prefill = start(engine_side::prefill, 2, {.strangers_max = 4});
  std::vector<raw_peer> mute;
  for (int i = 0; i < 20; ++i)
    mute.push_back(dial(prefill));
  auto peer = dial(prefill);
  peer.send(raw_peer::framed(hello_of(engine_side::decode, 1)));
  for (int i = 0; i < 20; ++i)
    mute.push_back(dial(prefill));
  ASSERT_TRUE(run_until([&] { return prefill.links->stats().accepted == 41; }));
  EXPECT_EQ(prefill.joined(), 1u);
  EXPECT_EQ(prefill.links->strangers(), 4u);
  EXPECT_EQ(prefill.lost(), 0u);
}

TEST_F(link_hostile_test, a_hello_that_trickles_in_has_no_more_time_than_others) {
  auto& prefill = start(engine_side::prefill, 2);
  auto peer = dial(prefill);
  const auto bytes = raw_peer::framed(hello_of(engine_side::decode, 1));
  for (const char byte : bytes.substr(0, 20)) {
    now += milliseconds(99);
    peer.send({&byte, 1});
    settle();
  }
  EXPECT_EQ(prefill.links->strangers(), 1u);
  now += milliseconds(120);
  peer.send(bytes.substr(20, 1));
  settle();
  EXPECT_EQ(prefill.links->connections(), 0u);
}

TEST_F(link_hostile_test, one_that_was_refused_and_does_not_close_is_closed_in_time) {
  auto& prefill = start(engine_side::prefill, 2);
  auto peer = dial_and_join(prefill, 1);
  peer.send(raw_peer::framed("rubbish"));
  ASSERT_TRUE(run_until([&] { return prefill.lost() == 1; }));
  EXPECT_EQ(prefill.links->strangers(), 1u);
  for (int i = 0; i < 20; ++i) {
    now += milliseconds(99);
    peer.send(raw_peer::framed(join_of(1)));
    settle();
  }
  EXPECT_EQ(prefill.links->connections(), 1u);
  now += milliseconds(20);
  settle();
  EXPECT_EQ(prefill.links->connections(), 0u);
  EXPECT_EQ(prefill.seen.size(), 2u) << "joined and lost";
}

} // namespace
} // namespace peercache::handoff::testing
