#include "actors/serving/lookup_connections.hpp"

#include "directory/wire.hpp"
#include "net/frame_channel.hpp"

#include <gtest/gtest.h>

namespace peercache::actors {
namespace {

namespace frames = net::frames;

class lookup_connections_test : public testing::Test {
protected:
  std::string greeting = frames::greeting(1, "test", {1, 2});
  lookup_connections connections{greeting,
                                 frames::greeting(1, "test", {1, 2}, member_question_magic)};
  lookup_connections::handle handle = 7;
  std::vector<std::string> questions;
  lookup_connections::time_point now{std::chrono::hours(1)};

  void SetUp() override { ASSERT_TRUE(connections.add(handle, now)); }

  bool receive(const std::string& bytes) {
    return connections.receive(handle, bytes, now, questions);
  }

  static std::string framed(const std::string& payload) {
    std::string out;
    frames::append_frame(out, payload);
    return out;
  }
};

TEST_F(lookup_connections_test, questions_come_out_however_the_bytes_arrive) {
  for (char byte : greeting + framed("one") + framed("two"))
    ASSERT_TRUE(receive(std::string(1, byte)));
  EXPECT_EQ(questions, (std::vector<std::string>{"one", "two"}));
  questions.clear();
  EXPECT_TRUE(receive(framed("three") + framed("four")));
  EXPECT_EQ(questions, (std::vector<std::string>{"three", "four"}));
}

TEST_F(lookup_connections_test, another_greeting_is_turned_away_at_its_first_wrong_byte) {
  EXPECT_FALSE(receive("GET / HTTP/1.1"));
  handle = 8;
  ASSERT_TRUE(connections.add(handle, now));
  EXPECT_FALSE(receive(frames::greeting(1, "test", {9, 9})));
  EXPECT_TRUE(questions.empty());
}

TEST_F(lookup_connections_test, a_greeting_that_is_late_is_overdue_however_it_trickles) {
  using namespace std::chrono_literals;
  EXPECT_TRUE(receive(greeting.substr(0, 5)));
  now += 1900ms;
  EXPECT_TRUE(receive(greeting.substr(5, 5)));
  EXPECT_TRUE(connections.overdue(now).empty());
  EXPECT_FALSE(connections.greeted(handle));
  now += 100ms;
  EXPECT_EQ(connections.overdue(now), std::vector{handle});
}

TEST_F(lookup_connections_test, who_asks_nothing_and_takes_nothing_for_long_is_overdue) {
  const auto later = [this] { now += lookup_connections::idle_patience - std::chrono::seconds(1); };
  const auto overdue = [this] { return connections.overdue(now) == std::vector{handle}; };
  later();
  EXPECT_TRUE(overdue()) << "it has not even greeted";
  EXPECT_TRUE(receive(greeting));
  later();
  EXPECT_FALSE(overdue());
  EXPECT_TRUE(receive(framed("one")));
  later();
  EXPECT_FALSE(overdue());
  ASSERT_TRUE(connections.answered(handle, 3, 10));
  connections.taken(handle, 5, now);
  later();
  EXPECT_FALSE(overdue());
  now += std::chrono::seconds(1);
  EXPECT_TRUE(overdue());
}

TEST_F(lookup_connections_test, a_question_that_trickles_does_not_keep_its_connection) {
  EXPECT_TRUE(receive(greeting));
  const auto question = framed(std::string(1000, 'q'));
  for (std::size_t i = 0; connections.overdue(now).empty(); ++i) {
    ASSERT_LT(i, question.size() - 1);
    ASSERT_TRUE(receive(question.substr(i, 1)));
    now += std::chrono::seconds(30);
  }
}

TEST_F(lookup_connections_test, a_length_beyond_the_limit_ends_the_connection) {
  EXPECT_FALSE(receive(greeting + std::string(4, '\xff')));
}

TEST_F(lookup_connections_test, nothing_is_taken_from_a_connection_that_was_removed) {
  connections.remove(handle);
  EXPECT_FALSE(receive(greeting));
}

/// Returns a question with as many keys as a client asks for at once.
std::string long_question() {
  return std::string(limits::batch_pages_max * directory::wire::key_bytes, 'k');
}

TEST_F(lookup_connections_test, a_peer_that_asks_and_does_not_read_is_turned_away) {
  ASSERT_TRUE(receive(greeting + framed(long_question())));
  EXPECT_TRUE(receive(framed(long_question())));
  EXPECT_FALSE(receive(framed(long_question())));
}

TEST_F(lookup_connections_test, a_peer_that_takes_its_answers_asks_for_ever) {
  ASSERT_TRUE(receive(greeting));
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(receive(framed(long_question())));
    connections.answered(handle, long_question().size(), 1u << 20);
    connections.taken(handle, 1u << 19, now);
    connections.taken(handle, 1u << 19, now);
  }
  EXPECT_EQ(connections.held_bytes(), 0u);
}

TEST_F(lookup_connections_test, answers_that_are_not_taken_count) {
  ASSERT_TRUE(receive(greeting));
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(receive(framed("one")));
    connections.answered(handle, 3, 1u << 20);
  }
  EXPECT_EQ(connections.held_bytes(), 4u << 20);
  EXPECT_FALSE(receive(framed("one")));
  connections.remove(handle);
  EXPECT_EQ(connections.held_bytes(), 0u);
}

TEST_F(lookup_connections_test, an_answer_for_a_connection_that_is_gone_counts_nowhere) {
  ASSERT_TRUE(receive(greeting + framed("one")));
  connections.remove(handle);
  EXPECT_FALSE(connections.answered(handle, 3, 10));
  EXPECT_EQ(connections.held_bytes(), 0u);
}

TEST_F(lookup_connections_test, whoever_holds_most_goes_when_all_hold_too_much) {
  ASSERT_TRUE(receive(greeting + framed("modest")));
  for (lookup_connections::handle i = 100; connections.one_too_many() == std::nullopt; ++i) {
    handle = i;
    ASSERT_TRUE(connections.add(handle, now));
    ASSERT_TRUE(receive(greeting + framed(long_question())));
  }
  EXPECT_GE(*connections.one_too_many(), 100u);
  connections.remove(handle);
  EXPECT_EQ(connections.one_too_many(), std::nullopt);
  EXPECT_LE(connections.held_bytes(), lookup_connections::total_bytes_max);
}

TEST_F(lookup_connections_test, there_is_a_limit_of_connections) {
  for (std::size_t i = 1; i < lookup_connections::connections_max; ++i)
    ASSERT_TRUE(connections.add(100 + i, now));
  EXPECT_FALSE(connections.add(99, now));
}

} // namespace
} // namespace peercache::actors
