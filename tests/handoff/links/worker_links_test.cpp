#include "common/printable.hpp"
#include "tests/handoff/links/link_world.hpp"

#include <thread>

namespace peercache::handoff::testing {
namespace {

using ::testing::HasSubstr;

class worker_links_test : public link_world {};

TEST_F(worker_links_test, both_sides_learn_who_the_other_is) {
  auto& decode = start(engine_side::decode, 1);
  auto& prefill = start(engine_side::prefill, 2);
  const auto [at_decode, at_prefill] = join(decode, prefill);
  EXPECT_EQ(decode.all<peer_joined>(), (std::vector{peer_joined{at_decode, prefill.self}}));
  EXPECT_EQ(prefill.all<peer_joined>(), (std::vector{peer_joined{at_prefill, decode.self}}));
  EXPECT_EQ(decode.links->stats().joined, 1u);
  EXPECT_EQ(prefill.links->stats().accepted, 1u);
  EXPECT_EQ(prefill.links->strangers(), 0u);
}

TEST_F(worker_links_test, transfer_workers_meet_their_like_and_nobody_else) {
  auto& one = start(engine_side::transfer, 1);
  auto& two = start(engine_side::transfer, 2);
  join(one, two);
  auto& decode = start(engine_side::decode, 3);
  ASSERT_TRUE(decode.links->connect(one.address(), std::nullopt, now));
  ASSERT_TRUE(run_until([&] { return decode.lost() == 1; }));
  EXPECT_EQ(decode.loss().reason, loss_reason::refused);
  EXPECT_THAT(decode.loss().detail, HasSubstr("transfer engines alone"));
}

TEST_F(worker_links_test, ten_thousand_messages_each_way_keep_their_order) {
  auto& decode = start(engine_side::decode, 1);
  auto& prefill = start(engine_side::prefill, 2);
  const auto [at_decode, at_prefill] = join(decode, prefill);
  constexpr std::uint64_t messages = 10'000;
  std::uint64_t sent = 0;
  ASSERT_TRUE(run_until([&, ids = std::pair(at_decode, at_prefill)] {
    for (const auto end = std::min(messages, sent + 97); sent < end; ++sent) {
      decode.links->send(ids.first, join_of(sent), now);
      prefill.links->send(ids.second, offer_of(sent), now);
    }
    return decode.seen.size() == messages + 1 && prefill.seen.size() == messages + 1;
  }));
  for (std::uint64_t i = 0; i < messages; ++i) {
    ASSERT_EQ(std::get<peer_said>(prefill.seen[i + 1]), (peer_said{at_prefill, join_of(i)}));
    ASSERT_EQ(std::get<peer_said>(decode.seen[i + 1]), (peer_said{at_decode, offer_of(i)}));
  }
}

TEST_F(worker_links_test, the_longest_message_there_is_arrives) {
  auto& decode = start(engine_side::decode, 1);
  auto& prefill = start(engine_side::prefill, 2);
  const auto [at_decode, at_prefill] = join(decode, prefill);
  auto offered = offer_of(1);
  offered.pages.pages.assign(limits::offer_pages_max, 1);
  offered.pages.states.resize(limits::state_components_max);
  for (auto& states : offered.pages.states)
    states.items.assign(limits::room_pages_max, 2);
  prefill.links->send(at_prefill, offered, now);
  ASSERT_TRUE(run_until([&] { return decode.seen.size() == 2; }));
  EXPECT_TRUE(std::get<peer_said>(decode.seen.back()).what == message(offered));
}

TEST_F(worker_links_test, two_that_connect_to_each_other_at_once_have_two_connections) {
  auto& one = start(engine_side::decode, 1);
  auto& two = start(engine_side::prefill, 2);
  const auto from_one = one.links->connect(two.address(), std::nullopt, now);
  const auto from_two = two.links->connect(one.address(), std::nullopt, now);
  ASSERT_TRUE(from_one && from_two);
  ASSERT_TRUE(run_until([&] { return one.joined() == 2 && two.joined() == 2; }));
  one.links->send(*from_one, join_of(1), now);
  two.links->send(*from_two, join_of(2), now);
  ASSERT_TRUE(run_until(
      [&] { return one.all<peer_said>().size() == 1 && two.all<peer_said>().size() == 1; }));
  EXPECT_EQ(two.all<peer_said>().front().what, message(join_of(1)));
  EXPECT_NE(two.all<peer_said>().front().peer, *from_two);
  EXPECT_EQ(one.all<peer_said>().front().what, message(join_of(2)));
  pass(std::chrono::seconds(5), std::chrono::milliseconds(250));
  EXPECT_EQ(one.lost() + two.lost(), 0u);
}

TEST_F(worker_links_test, an_address_has_one_connection) {
  auto& decode = start(engine_side::decode, 1);
  auto& prefill = start(engine_side::prefill, 2);
  const auto first = decode.links->connect(prefill.address(), std::nullopt, now);
  const auto second = decode.links->connect(prefill.address(), std::nullopt, now);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(*first, *second);
  ASSERT_TRUE(run_until([&] { return decode.joined() == 1; }));
  const auto third = decode.links->connect(prefill.address(), prefill.self.process, now);
  ASSERT_TRUE(third);
  EXPECT_EQ(*first, *third);
  settle();
  EXPECT_EQ(prefill.joined(), 1u);
}

TEST_F(worker_links_test, a_worker_that_came_back_is_another_peer_and_the_old_one_is_lost) {
  auto& decode = start(engine_side::decode, 1);
  auto& prefill = start(engine_side::prefill, 2);
  const auto old = join(decode, prefill).first;
  const auto address = prefill.address();
  prefill.links.reset();
  prefill.frozen = true;
  auto& again = start(engine_side::prefill, 3, {.port = address.port});
  ASSERT_TRUE(run_until([&] { return decode.lost() == 1; }));
  EXPECT_EQ(decode.loss().peer, old);
  EXPECT_EQ(decode.loss().reason, loss_reason::closed);
  const auto anew = join(decode, again).first;
  EXPECT_NE(anew, old);
  EXPECT_EQ(decode.all<peer_joined>().back(), (peer_joined{anew, again.self}));
  EXPECT_EQ(decode.lost(), 1u);
}

TEST_F(worker_links_test, another_process_meant_at_an_address_ends_the_connection_there) {
  auto& decode = start(engine_side::decode, 1);
  auto& prefill = start(engine_side::prefill, 2);
  const auto old = join(decode, prefill).first;
  const auto anew = decode.links->connect(prefill.address(), incarnation{3, 1}, now);
  ASSERT_TRUE(anew);
  EXPECT_NE(*anew, old);
  ASSERT_TRUE(run_until([&] { return decode.lost() == 2; }));
  const auto losses = decode.all<peer_lost>();
  EXPECT_EQ(losses[0].peer, old);
  EXPECT_EQ(losses[0].reason, loss_reason::closed);
  EXPECT_EQ(losses[1].peer, *anew);
  EXPECT_EQ(losses[1].reason, loss_reason::refused) << "it is process 2 that is there";
}

TEST_F(worker_links_test, beats_keep_a_quiet_connection_and_are_nobodys_business) {
  auto& decode = start(engine_side::decode, 1);
  auto& prefill = start(engine_side::prefill, 2);
  join(decode, prefill);
  pass(std::chrono::minutes(1), std::chrono::milliseconds(450));
  EXPECT_EQ(decode.seen.size(), 1u);
  EXPECT_EQ(prefill.seen.size(), 1u);
}

TEST_F(worker_links_test, a_beat_is_sent_only_when_nothing_else_was) {
  auto& prefill = start(engine_side::prefill, 2);
  auto peer = dial_and_join(prefill, 1);
  const auto at_prefill = prefill.all<peer_joined>().front().peer;
  const auto beats = [&peer] {
    const auto& said = peer.received();
    return std::count(said.begin(), said.end(), message(beat{}));
  };
  for (int i = 0; i < 4; ++i) {
    now += std::chrono::milliseconds(400);
    prefill.links->send(at_prefill, offer_of(1), now);
    peer.send(raw_peer::framed(beat{}));
    settle();
  }
  EXPECT_EQ(beats(), 0);
  now += std::chrono::milliseconds(499);
  settle();
  EXPECT_EQ(beats(), 0);
  now += std::chrono::milliseconds(1);
  settle();
  EXPECT_EQ(beats(), 1);
}

TEST_F(worker_links_test, an_open_address_needs_insecure_cluster) {
  auto refused = worker_links::listen({.host = "0.0.0.0"}, hello_of(engine_side::decode, 1));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, errc::refused);
  EXPECT_THAT(refused.error().message, HasSubstr("set `insecure_cluster = true`"));
  EXPECT_TRUE(worker_links::listen({.host = "0.0.0.0", .insecure_cluster = true},
                                   hello_of(engine_side::decode, 1)));
}

TEST_F(worker_links_test, the_name_of_a_cluster_can_be_said) {
  for (const auto& [cluster, good] : {std::pair(std::string(255, 'x'), true),
                                      {std::string(256, 'x'), false},
                                      {"caf\xc3\xa9", false},
                                      {"a\nb", false},
                                      {"", true}}) {
    auto self = hello_of(engine_side::decode, 1);
    self.cluster = cluster;
    const auto made = worker_links::listen({}, self);
    EXPECT_EQ(bool(made), good) << cluster;
    if (!made) {
      EXPECT_EQ(made.error().code, errc::invalid_argument);
      EXPECT_EQ(made.error().message, printable(made.error().message));
    }
  }
}

TEST_F(worker_links_test, another_thread_wakes_the_one_that_waits) {
  auto& decode = start(engine_side::decode, 1);
  std::thread other([&] { decode.links->wake(); });
  const auto begin = std::chrono::steady_clock::now();
  decode.links->wait(now, std::chrono::seconds(30));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
  other.join();
}

TEST_F(worker_links_test, a_wake_up_is_not_lost_in_a_poll_that_comes_before_the_wait) {
  auto& decode = start(engine_side::decode, 1);
  decode.links->wake();
  decode.links->poll(now);
  const auto begin = std::chrono::steady_clock::now();
  decode.links->wait(now, std::chrono::seconds(30));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

TEST_F(worker_links_test, waiting_ends_when_a_beat_is_due) {
  auto& decode = start(engine_side::decode, 1, {.beat_interval = std::chrono::milliseconds(20)});
  auto& prefill = start(engine_side::prefill, 2);
  join(decode, prefill);
  settle();
  const auto begin = std::chrono::steady_clock::now();
  decode.links->wait(now, std::chrono::seconds(30));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

TEST_F(worker_links_test, waiting_ends_when_the_owner_s_descriptor_has_something) {
  auto& decode = start(engine_side::decode, 1);
  auto other = net::event_poll::create();
  ASSERT_TRUE(other);
  ASSERT_TRUE(decode.links->also_wait_for(other->descriptor()));
  decode.links->poll(now);
  other->wake();
  const auto begin = std::chrono::steady_clock::now();
  decode.links->wait(now, std::chrono::seconds(30));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
  EXPECT_TRUE(decode.links->poll(now).empty());
}

TEST_F(worker_links_test, what_is_sent_at_once_needs_no_poll) {
  auto& decode = start(engine_side::decode, 1);
  auto& prefill = start(engine_side::prefill, 2);
  const auto at_decode = join(decode, prefill).first;
  settle();
  EXPECT_FALSE(decode.links->send_at_once(at_decode, join_of(5), now)) << "nothing is left";
  decode.frozen = true;
  ASSERT_TRUE(run_until([&] { return !prefill.all<peer_said>().empty(); }));
  EXPECT_FALSE(decode.links->send_at_once(peer_id{99}, join_of(5), now)) << "nobody has this id";
}

TEST_F(worker_links_test, close_ends_everything_and_sends_what_was_queued) {
  auto& decode = start(engine_side::decode, 1);
  auto& prefill = start(engine_side::prefill, 2);
  const auto at_decode = join(decode, prefill).first;
  const auto address = decode.address();
  decode.links->send(at_decode, join_of(5), now);
  decode.links->close();
  ASSERT_TRUE(run_until([&] { return prefill.lost() == 1; }));
  EXPECT_EQ(prefill.all<peer_said>().size(), 1u);
  EXPECT_EQ(prefill.loss().reason, loss_reason::closed);
  EXPECT_EQ(decode.seen.size(), 1u) << "no events behind close";
  EXPECT_EQ(decode.links->connections(), 0u);
  EXPECT_EQ(decode.links->connect(prefill.address(), std::nullopt, now).error().code, errc::closed);
  ASSERT_TRUE(prefill.links->connect(address, std::nullopt, now));
  ASSERT_TRUE(run_until([&] { return prefill.lost() == 2; }));
  EXPECT_EQ(prefill.all<peer_lost>().back().reason, loss_reason::unreachable);
}

TEST_F(worker_links_test, refuse_tells_the_peer_why_and_is_no_event_here) {
  auto& decode = start(engine_side::decode, 1);
  auto& prefill = start(engine_side::prefill, 2);
  const auto at_decode = join(decode, prefill).first;
  decode.links->refuse(at_decode, "pages of 64 tokens there, of 16 here", now);
  decode.links->send(at_decode, join_of(5), now);
  ASSERT_TRUE(run_until([&] { return prefill.lost() == 1; }));
  EXPECT_EQ(prefill.loss().reason, loss_reason::refused);
  EXPECT_THAT(prefill.loss().detail, HasSubstr("pages of 64 tokens there, of 16 here"));
  ASSERT_TRUE(run_until([&] { return decode.links->connections() == 0; }));
  EXPECT_EQ(decode.seen.size(), 1u);
  EXPECT_TRUE(prefill.all<peer_said>().empty());
}

} // namespace
} // namespace peercache::handoff::testing
