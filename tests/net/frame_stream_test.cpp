#include "net/frame_stream.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>

namespace peercache::net::frame_stream_test {
namespace {

constexpr std::size_t queue_bytes_max = 1u << 20;
constexpr std::size_t payload_bytes_max = 1u << 19;

/// Two frame streams at the ends of one connection. Before each call the fixture tells a stream to
/// try its socket again, as if an event had come.
class frame_stream_test : public testing::Test {
protected:
  frame_stream_test() {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    a.emplace(unique_fd(ends[0]), queue_bytes_max);
    b.emplace(unique_fd(ends[1]), queue_bytes_max);
  }

  std::size_t receive(frame_stream& at, std::size_t bytes_max = queue_bytes_max) {
    at.look_again();
    return at.receive(bytes_max);
  }
  void flush(frame_stream& at) {
    at.look_again();
    at.flush();
  }

  std::optional<frame_stream> a, b;
};

TEST_F(frame_stream_test, frames_come_whole_and_in_order_however_they_are_cut) {
  for (const std::string word : {"one", "", "three"})
    EXPECT_TRUE(a->push(word, payload_bytes_max));
  flush(*a);
  std::vector<std::string> got;
  while (receive(*b, 1) == 1)
    while (const auto payload = b->take(payload_bytes_max))
      got.emplace_back(*payload);
  EXPECT_EQ(got, (std::vector<std::string>{"one", "", "three"}));
  EXPECT_FALSE(b->ended());
}

TEST_F(frame_stream_test, what_the_socket_does_not_take_waits_up_to_the_bound) {
  const std::string payload(100'000, 'x');
  std::size_t pushed = 0;
  for (; a->push(payload, payload_bytes_max); ++pushed)
    flush(*a);
  EXPECT_LE(a->queued_bytes(), queue_bytes_max);
  EXPECT_GT(a->queued_bytes(), queue_bytes_max - payload.size() - frames::length_bytes);
  std::size_t got = 0;
  for (int turns = 0; got < pushed && turns < 1000; ++turns) {
    receive(*b);
    while (const auto frame = b->take(payload_bytes_max)) {
      EXPECT_EQ(*frame, payload);
      ++got;
    }
    flush(*a);
  }
  EXPECT_EQ(got, pushed);
  EXPECT_EQ(a->queued_bytes(), 0u);
  EXPECT_TRUE(a->push(payload, payload_bytes_max)) << "there is room again";
}

TEST_F(frame_stream_test, a_frame_longer_than_is_allowed_is_never_taken) {
  EXPECT_TRUE(a->push("four", payload_bytes_max));
  flush(*a);
  receive(*b);
  EXPECT_FALSE(b->take(3));
  EXPECT_TRUE(b->too_long());
  EXPECT_FALSE(b->take(4)) << "the stream no longer has a next frame";
}

TEST_F(frame_stream_test, all_that_came_before_the_end_is_received) {
  EXPECT_TRUE(a->push("last words", payload_bytes_max));
  flush(*a);
  a.reset();
  EXPECT_TRUE(b->push("nobody hears this", payload_bytes_max));
  flush(*b);
  EXPECT_FALSE(b->ended()) << "what has come is not received yet";
  receive(*b);
  ASSERT_TRUE(b->ended());
  const auto payload = b->take(payload_bytes_max);
  ASSERT_TRUE(payload);
  EXPECT_EQ(*payload, "last words");
  EXPECT_NE(b->fault(), 0);
}

TEST_F(frame_stream_test, a_send_that_fails_makes_the_stream_look_for_the_end) {
  a.reset();
  EXPECT_TRUE(b->push("nobody hears this", payload_bytes_max));
  b->on_events(EPOLLOUT);
  b->flush();
  EXPECT_TRUE(b->wants_turn());
  b->receive(100);
  EXPECT_TRUE(b->ended());
}

TEST_F(frame_stream_test, a_side_that_has_finished_may_still_receive) {
  a->finish();
  receive(*b);
  EXPECT_TRUE(b->ended());
  EXPECT_EQ(b->fault(), 0);
  EXPECT_TRUE(b->push("answer", payload_bytes_max));
  flush(*b);
  EXPECT_GT(receive(*a), 0u);
  EXPECT_TRUE(a->take(payload_bytes_max));
}

TEST_F(frame_stream_test, without_events_nothing_is_tried) {
  EXPECT_TRUE(a->push("word", payload_bytes_max));
  a->flush();
  EXPECT_FALSE(a->has_sent());
  EXPECT_FALSE(a->wants_turn());
  a->on_events(EPOLLOUT);
  EXPECT_TRUE(a->wants_turn());
  a->flush();
  EXPECT_TRUE(a->has_sent());
  EXPECT_EQ(b->receive(100), 0u);
  b->on_events(EPOLLIN);
  EXPECT_EQ(b->receive(100), frames::length_bytes + 4);
}

} // namespace
} // namespace peercache::net::frame_stream_test
