// Tests of the connections on which clients ask a member all questions except the look-ups of their
// calls.

#include "actors/serving/lookup_connections.hpp"

#include "actors/link_names.hpp"
#include "net/frame_channel.hpp"

#include <gtest/gtest.h>

namespace peercache::actors {
namespace {

namespace frames = net::frames;

class member_connections_test : public testing::Test {
protected:
  std::string greeting = frames::greeting(1, "test", {1, 2}, member_question_magic);
  lookup_connections connections{frames::greeting(1, "test", {1, 2}), greeting};
  lookup_connections::handle handle = 7;
  std::vector<std::string> questions;
  lookup_connections::time_point now{std::chrono::hours(1)};

  void SetUp() override { ASSERT_TRUE(connections.add(handle, now)); }

  bool receive(const std::string& bytes) {
    return connections.receive(handle, bytes, now, questions);
  }
  static std::string framed(member_question kind, const std::string& body) {
    std::string out;
    frames::append_frame(out, encode_question({1, kind, body}));
    return out;
  }
  bool answer(member_question kind, std::size_t body_bytes, std::size_t frame_bytes) {
    return connections.member_answered(handle, kind, body_bytes, frame_bytes);
  }
};

TEST_F(member_connections_test, the_greeting_says_what_is_asked) {
  EXPECT_FALSE(connections.asks_member(handle));
  for (const char byte : greeting + framed(member_question::hello, ""))
    ASSERT_TRUE(receive(std::string(1, byte)));
  EXPECT_TRUE(connections.asks_member(handle));
  ASSERT_EQ(questions.size(), 1u);
  EXPECT_EQ(read_question(questions[0])->kind, member_question::hello);
}

TEST_F(member_connections_test, a_question_that_breaks_the_rules_ends_the_connection) {
  EXPECT_FALSE(receive(greeting + framed(member_question::remove, "half a key")));
  EXPECT_TRUE(questions.empty());
}

TEST_F(member_connections_test, of_look_ups_knows_no_other_questions) {
  ASSERT_TRUE(
      receive(frames::greeting(1, "test", {1, 2}) + framed(member_question::remove, "half a key")));
  EXPECT_FALSE(connections.asks_member(handle)) << "the shard finds that these are not keys";
  EXPECT_EQ(questions.size(), 1u);
}

TEST_F(member_connections_test, has_a_limit_of_open_questions) {
  ASSERT_TRUE(receive(greeting));
  for (std::size_t i = 0; i < member_questions_open_max; ++i)
    ASSERT_TRUE(receive(framed(member_question::hello, "")));
  ASSERT_TRUE(answer(member_question::hello, 0, 100));
  EXPECT_TRUE(receive(framed(member_question::hello, "")));
  EXPECT_FALSE(receive(framed(member_question::hello, "")));
}

TEST_F(member_connections_test, a_peer_that_asks_and_does_not_read_is_turned_away) {
  const std::string keys(limits::batch_pages_max * directory::wire::key_bytes, 'k');
  ASSERT_TRUE(receive(greeting));
  std::size_t asked = 0;
  while (receive(framed(member_question::look_up, keys)))
    ASSERT_LT(++asked, member_questions_open_max);
  EXPECT_GE(asked, 2u) << "a client may have as many open";
}

TEST_F(member_connections_test, keep_no_room_of_a_long_question) {
  const auto question =
      framed(member_question::withdraw,
             std::string(limits::batch_pages_max * directory::wire::withdraw_record_bytes, 'w'));
  ASSERT_TRUE(receive(greeting + question.substr(0, question.size() - 1)));
  EXPECT_GE(connections.room_of(handle), question.size() - 1);
  ASSERT_TRUE(receive(question.substr(question.size() - 1)));
  ASSERT_EQ(questions.size(), 1u);
  EXPECT_LE(connections.room_of(handle), 8192u);
  ASSERT_TRUE(receive(question + question.substr(0, 1)));
  ASSERT_EQ(questions.size(), 2u);
  EXPECT_LE(connections.room_of(handle), 8192u) << "also where the next one has begun";
}

TEST_F(member_connections_test, hold_nothing_when_all_is_answered_and_taken) {
  ASSERT_TRUE(receive(greeting));
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(receive(framed(member_question::remove, std::string(64, 'k'))));
    ASSERT_TRUE(answer(member_question::remove, 64, 10));
    connections.taken(handle, 10, now);
  }
  EXPECT_EQ(connections.held_bytes(), 0u);
}

} // namespace
} // namespace peercache::actors
