#include "net/frame_channel.hpp"
#include "tests/support/certificates.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

namespace peercache::net::frame_channel_test {
namespace {

using state = frame_channel::state;

/// A frame channel, and the server's end of its connection, from which the test reads and to which
/// it writes.
class frame_channel_test : public testing::Test {
protected:
  static constexpr std::uint32_t version = 1;
  unique_fd listener = std::move(*listen_on("127.0.0.1", 0, 4));
  std::string greeting = frames::greeting(version, "test", {1, 2});
  std::unique_ptr<frame_channel> channel =
      std::move(*frame_channel::open("127.0.0.1", local_port(listener), greeting));
  unique_fd peer;

  void accept() {
    pollfd waiting{listener.get(), POLLIN, 0};
    ASSERT_EQ(::poll(&waiting, 1, 5000), 1);
    peer = accept_from(listener, {});
  }

  std::string receive(std::size_t bytes) {
    std::string got;
    char piece[4096];
    while (got.size() < bytes) {
      channel->advance();
      pollfd waiting{peer.get(), POLLIN, 0};
      if (::poll(&waiting, 1, 5000) != 1)
        break;
      auto count = ::recv(peer.get(), piece, std::min(sizeof piece, bytes - got.size()), 0);
      if (count <= 0)
        break;
      got.append(piece, static_cast<std::size_t>(count));
    }
    return got;
  }

  void send(const std::string& bytes) {
    ASSERT_EQ(::send(peer.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }

  /// Waits until bytes have arrived at the channel, and lets it advance. Returns its state.
  state after_arrival() {
    pollfd waiting{channel->fd(), POLLIN, 0};
    EXPECT_EQ(::poll(&waiting, 1, 5000), 1);
    return channel->advance();
  }

  static std::string framed(const std::string& payload) {
    std::string out;
    frames::append_frame(out, payload);
    return out;
  }
};

TEST_F(frame_channel_test, greets_and_asks_in_frames_of_the_given_size) {
  channel->ask("aabbc", 2);
  accept();
  auto expected = greeting + framed("aa") + framed("bb") + framed("c");
  EXPECT_EQ(receive(expected.size()), expected);
}

TEST_F(frame_channel_test, is_answered_when_every_frame_is) {
  channel->ask("aabb", 2);
  accept();
  receive(frames::greeting_bytes + 12);
  EXPECT_EQ(channel->advance(), state::asking);
  auto second = framed("two");
  send(framed("one") + second.substr(0, 3));
  EXPECT_EQ(after_arrival(), state::asking);
  send(second.substr(3));
  EXPECT_EQ(after_arrival(), state::answered);
  EXPECT_EQ(channel->answer(), "onetwo");
}

TEST_F(frame_channel_test, a_second_question_goes_over_the_same_connection) {
  for (const std::string word : {"first", "second"}) {
    channel->ask(word, 100);
    if (!peer)
      accept();
    receive((word == "first" ? frames::greeting_bytes : 0) + 4 + word.size());
    send(framed("re: " + word));
    EXPECT_EQ(after_arrival(), state::answered);
    EXPECT_EQ(channel->answer(), "re: " + word);
  }
}

TEST_F(frame_channel_test, a_closed_connection_is_broken) {
  channel->ask("a", 1);
  accept();
  EXPECT_EQ(channel->advance(), state::asking); // This call sends the question.
  peer.reset();
  EXPECT_EQ(after_arrival(), state::broken);
}

TEST_F(frame_channel_test, an_answer_longer_than_any_may_be_is_broken) {
  channel->ask("a", 1);
  accept();
  EXPECT_EQ(channel->advance(), state::asking); // This call sends the question.
  send(std::string(4, '\xff'));
  EXPECT_EQ(after_arrival(), state::broken);
}

TEST_F(frame_channel_test, an_answer_to_nothing_is_broken) {
  channel->ask("a", 1);
  accept();
  EXPECT_EQ(channel->advance(), state::asking); // This call sends the question.
  send(framed("one") + framed("two"));
  EXPECT_EQ(after_arrival(), state::broken);
}

TEST_F(frame_channel_test, nobody_at_the_address_is_broken) {
  auto port = local_port(listener);
  listener.reset();
  auto other = frame_channel::open("127.0.0.1", port, greeting);
  ASSERT_TRUE(other);
  (*other)->ask("a", 1);
  pollfd waiting{(*other)->fd(), POLLIN | POLLOUT, 0};
  ASSERT_EQ(::poll(&waiting, 1, 5000), 1);
  EXPECT_EQ((*other)->advance(), state::broken);
}

TEST(frame_channel_tls, asks_and_is_answered_under_tls) {
  certificates ca;
  const auto node = context_of(ca.node());
  const auto client = context_of(ca.client());
  const auto listener = std::move(*listen_on("127.0.0.1", 0, 4));
  const auto greeting = frames::greeting(1, "test", {1, 2});
  auto channel =
      std::move(*frame_channel::open("127.0.0.1", local_port(listener), greeting, client.get()));
  channel->ask("question", 100);
  pollfd waiting[2] = {{listener.get(), POLLIN, 0}, {-1, 0, 0}};
  ASSERT_EQ(::poll(waiting, 1, 5000), 1);
  const auto peer = accept_from(listener, {});
  auto server = node->accepted(peer.get());
  std::string got;
  bool answered = false;
  auto now = state::asking;
  while (now == state::asking) {
    // Each side waits only for the events that it asks for, so the test hangs if a side asks for
    // the wrong ones.
    waiting[0] = {channel->fd(), channel->events(), 0};
    waiting[1] = {peer.get(), POLLIN, 0};
    ASSERT_GT(::poll(waiting, 2, 5000), 0);
    if (waiting[0].revents != 0)
      now = channel->advance();
    char piece[256];
    if (const auto count = server.receive(piece, sizeof piece); count > 0)
      got.append(piece, static_cast<std::size_t>(count));
    if (!answered && got.size() == greeting.size() + 4 + 8) {
      std::string answer;
      frames::append_frame(answer, "answer");
      answered = server.send(answer.data(), answer.size()) == ssize_t(answer.size());
    }
  }
  EXPECT_EQ(now, state::answered);
  EXPECT_EQ(channel->answer(), "answer");
  EXPECT_EQ(got.substr(greeting.size() + 4), "question");
}

TEST(frame_channel_tls, a_server_without_tls_is_broken) {
  certificates ca;
  const auto client = context_of(ca.client());
  const auto listener = std::move(*listen_on("127.0.0.1", 0, 4));
  auto channel = std::move(*frame_channel::open("127.0.0.1", local_port(listener),
                                                frames::greeting(1, "test", {1, 2}), client.get()));
  channel->ask("question", 100);
  pollfd waiting{listener.get(), POLLIN, 0};
  ASSERT_EQ(::poll(&waiting, 1, 5000), 1);
  const auto peer = accept_from(listener, {});
  const std::string plain(64, 'p');
  ASSERT_EQ(::send(peer.get(), plain.data(), plain.size(), MSG_NOSIGNAL), ssize_t(plain.size()));
  auto now = state::asking;
  while (now == state::asking) {
    waiting = {channel->fd(), channel->events(), 0};
    ASSERT_EQ(::poll(&waiting, 1, 5000), 1);
    now = channel->advance();
  }
  EXPECT_EQ(now, state::broken);
}

TEST(frames, a_greeting_names_version_cluster_and_process) {
  auto usual = frames::greeting(1, "test", {1, 2});
  EXPECT_EQ(usual.size(), frames::greeting_bytes);
  EXPECT_NE(usual, frames::greeting(2, "test", {1, 2}));
  EXPECT_NE(usual, frames::greeting(1, "other", {1, 2}));
  EXPECT_NE(usual, frames::greeting(1, "test", {1, 3}));
}

} // namespace
} // namespace peercache::net::frame_channel_test
