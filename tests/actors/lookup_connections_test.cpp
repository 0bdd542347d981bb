#include "actors/lookup_broker.hpp"

#include "rdma/frame_channel.hpp"

#include <gtest/gtest.h>

namespace peercache::actors {
namespace {

namespace frames = rdma::frames;

class lookup_connections_test : public testing::Test {
protected:
  std::string greeting = frames::greeting(1, "test", {1, 2});
  lookup_connections connections{greeting};
  caf::io::connection_handle handle = caf::io::connection_handle::from_int(7);
  std::vector<std::string> questions;

  void SetUp() override { ASSERT_TRUE(connections.add(handle)); }

  bool receive(const std::string& bytes) {
    return connections.receive(handle, bytes.data(), bytes.size(), questions);
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
  handle = caf::io::connection_handle::from_int(8);
  ASSERT_TRUE(connections.add(handle));
  EXPECT_FALSE(receive(frames::greeting(1, "test", {9, 9})));
  EXPECT_TRUE(questions.empty());
}

TEST_F(lookup_connections_test, a_length_beyond_the_limit_ends_the_connection) {
  EXPECT_FALSE(receive(greeting + std::string(4, '\xff')));
}

TEST_F(lookup_connections_test, nothing_is_taken_from_a_connection_that_was_removed) {
  connections.remove(handle);
  EXPECT_FALSE(receive(greeting));
}

TEST_F(lookup_connections_test, there_is_a_limit_of_connections) {
  for (std::size_t i = 1; i < lookup_connections::connections_max; ++i)
    ASSERT_TRUE(connections.add(caf::io::connection_handle::from_int(static_cast<int>(100 + i))));
  EXPECT_FALSE(connections.add(caf::io::connection_handle::from_int(99)));
}

} // namespace
} // namespace peercache::actors
