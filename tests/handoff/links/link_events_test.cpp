#include "tests/handoff/links/link_world.hpp"

#include <map>
#include <numeric>

/// Tests of how many events one `poll` of `worker_links` returns, and that events beyond this limit
/// are not lost.
namespace peercache::handoff::testing {
namespace {

using std::chrono::seconds;

class link_events_test : public link_world {
protected:
  static constexpr std::size_t events_per_poll = 10;
  static constexpr std::uint64_t messages = 200;

  static link_options few_events() {
    return {.events_bytes_max = events_per_poll * (sizeof(link_event) + encode(join_of(1)).size())};
  }
  /// Makes `peers` peers that join `prefill`, stops running `prefill`, and lets each peer send
  /// `messages` messages, which wait in the sockets.
  std::vector<raw_peer> begin(test_worker& prefill, std::size_t peers) {
    std::vector<raw_peer> made;
    for (std::size_t i = 0; i < peers; ++i)
      made.push_back(dial_and_join(prefill, 100 + i));
    prefill.frozen = true;
    for (auto& peer : made) {
      std::string bytes;
      for (std::uint64_t i = 0; i < messages; ++i)
        bytes += raw_peer::framed(join_of(i));
      EXPECT_EQ(peer.send(bytes), bytes.size());
    }
    settle();
    return made;
  }
  /// Adds the room of each join in these events to `rooms`, under the peer that sent it.
  void count(const std::vector<link_event>& events) {
    for (const auto& event : events)
      if (const auto* said = std::get_if<peer_said>(&event))
        rooms[said->peer].push_back(std::get<handoff::join>(said->what).room.value);
  }
  bool all_said(std::size_t peers) const {
    return rooms.size() == peers && std::all_of(rooms.begin(), rooms.end(), [](const auto& each) {
             return each.second.size() == messages;
           });
  }
  std::pair<std::size_t, std::size_t> least_and_most(std::size_t peers) const {
    std::size_t least = rooms.size() < peers ? 0 : messages, most = 0;
    for (const auto& [peer, said] : rooms) {
      least = std::min(least, said.size());
      most = std::max(most, said.size());
    }
    return {least, most};
  }

  std::map<peer_id, std::vector<std::uint64_t>> rooms;
};

TEST_F(link_events_test, a_poll_returns_few_and_the_next_one_goes_on_at_once) {
  auto& prefill = start(engine_side::prefill, 2, few_events());
  const auto peers = begin(prefill, 3);
  const auto began = std::chrono::steady_clock::now();
  std::size_t polls = 0;
  while (!all_said(3) && ++polls < 10'000) {
    prefill.links->wait(now, seconds(30));
    const auto events = prefill.links->poll(now);
    EXPECT_LE(events.size(), events_per_poll + 1);
    count(events);
  }
  EXPECT_GE(polls, 3 * messages / (events_per_poll + 1));
  EXPECT_LT(std::chrono::steady_clock::now() - began, seconds(20)) << "no wait has slept";
  std::vector<std::uint64_t> in_order(messages);
  std::iota(in_order.begin(), in_order.end(), 0u);
  for (const auto& [peer, said] : rooms)
    EXPECT_EQ(said, in_order);
}

TEST_F(link_events_test, links_take_turns_behind_the_limit) {
  auto& prefill = start(engine_side::prefill, 2, few_events());
  const auto peers = begin(prefill, 5);
  for (int polls = 0; !all_said(5) && polls < 10'000; ++polls) {
    count(prefill.links->poll(now));
    const auto [least, most] = least_and_most(5);
    EXPECT_LE(most - least, 2 * events_per_poll);
  }
  EXPECT_TRUE(all_said(5));
}

TEST_F(link_events_test, what_came_before_an_end_is_told_first_behind_the_limit) {
  auto& prefill = start(engine_side::prefill, 2, few_events());
  auto peers = begin(prefill, 2);
  peers.clear();
  settle();
  std::size_t lost = 0;
  for (int polls = 0; lost < 2 && polls < 10'000; ++polls)
    for (const auto& event : prefill.links->poll(now)) {
      count({event});
      if (const auto* loss = std::get_if<peer_lost>(&event)) {
        EXPECT_EQ(rooms[loss->peer].size(), messages);
        ++lost;
      }
    }
  EXPECT_EQ(lost, 2u);
}

TEST_F(link_events_test, nobody_is_silent_because_his_messages_wait_behind_the_limit) {
  auto& prefill = start(engine_side::prefill, 2, few_events());
  const auto peers = begin(prefill, 20);
  for (int polls = 0; !all_said(20) && polls < 10'000; ++polls) {
    now += seconds(1);
    const auto events = prefill.links->poll(now);
    count(events);
    for (const auto& event : events)
      ASSERT_FALSE(std::holds_alternative<peer_lost>(event))
          << std::get<peer_lost>(event).detail << " at poll " << polls;
  }
  EXPECT_TRUE(all_said(20));
}

TEST_F(link_events_test, a_hello_is_heard_while_others_fill_each_poll) {
  auto& prefill = start(engine_side::prefill, 2, few_events());
  const auto peers = begin(prefill, 3);
  auto fresh = dial(prefill);
  fresh.send(raw_peer::framed(hello_of(engine_side::decode, 1)));
  settle();
  const auto events = prefill.links->poll(now);
  EXPECT_GE(events.size(), events_per_poll) << "it is full";
  EXPECT_TRUE(std::any_of(events.begin(), events.end(), [](const auto& each) {
    return std::holds_alternative<peer_joined>(each);
  }));
}

} // namespace
} // namespace peercache::handoff::testing
