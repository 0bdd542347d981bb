// Tests of look-ups that come to a node's look-up port by datagram.

#include "directory/wire.hpp"
#include "link/lookup_datagram.hpp"
#include "net/datagram_socket.hpp"
#include "tests/actors/serving/lookup_port.hpp"

namespace peercache::actors {
namespace {

class lookup_server_datagrams_test : public lookup_ports::lookup_server_test {
protected:
  /// Says hello on this connection, and returns the pass.
  link::datagram_pass hello(int fd) {
    ask(fd, 1, member_question::hello, "");
    const auto said = answer(fd);
    EXPECT_TRUE(said);
    const auto pass = said ? link::read_pass(said->second) : std::nullopt;
    EXPECT_TRUE(pass);
    return pass.value_or(link::datagram_pass{});
  }
  void send(const link::datagram_pass& by, std::uint64_t number, const std::string& keys) {
    std::string bytes;
    codec.append_question(bytes, by, inc, number, keys);
    net::datagram one{*net::datagram_address::of("127.0.0.1", port), bytes};
    socket.send(std::span(&one, 1));
    EXPECT_TRUE(one.is_sent);
  }
  /// Waits for an answer.
  std::optional<link::datagram_answer> receive(const link::datagram_pass& by,
                                               std::uint64_t number) {
    pollfd ready{socket.fd(), POLLIN, 0};
    if (::poll(&ready, 1, 10'000) != 1)
      return std::nullopt;
    const auto come = socket.receive();
    EXPECT_EQ(come.size(), 1u);
    EXPECT_EQ(codec.answered_by(come[0].bytes), number);
    return codec.open_answer(come[0].bytes, by.secret, inc);
  }

  static std::string keys(std::size_t count) {
    std::string packed;
    for (std::size_t i = 0; i < count; ++i)
      directory::append_lookup(packed, key_space{}.key_of(std::to_string(i)));
    return packed;
  }

  net::datagram_socket socket = *net::datagram_socket::open(AF_INET);
  link::lookup_datagrams_codec codec;
};

} // namespace

TEST_F(lookup_server_datagrams_test, the_answer_is_that_of_the_shard) {
  const auto connection = connect_and_greet();
  const auto pass = hello(connection.get());
  for (const std::size_t count : {1u, 24u}) {
    send(pass, count, keys(count));
    const auto said = receive(pass, count);
    ASSERT_TRUE(said);
    EXPECT_EQ(said->reply, link::lookup_reply::places);
    EXPECT_EQ(said->body, *shard->look_up(keys(count)));
  }
  EXPECT_EQ(hello(connection.get()), pass);
}

TEST_F(lookup_server_datagrams_test, a_shard_that_is_being_changed_is_not_waited_for) {
  const auto connection = connect_and_greet();
  const auto pass = hello(connection.get());
  auto& changes =
      shard->lock()->records().memory().at(directory::header_unit).words[directory::changes_word];
  ++changes;
  send(pass, 7, keys(1));
  const auto said = receive(pass, 7);
  --changes;
  ASSERT_TRUE(said);
  EXPECT_EQ(said->reply, link::lookup_reply::over_tcp);
}

TEST_F(lookup_server_datagrams_test, each_connection_has_a_secret_of_its_own_while_it_stands) {
  auto first = connect_and_greet();
  const auto second = connect_and_greet();
  const auto one = hello(first.get());
  const auto other = hello(second.get());
  EXPECT_NE(one.client, other.client);
  EXPECT_NE(one.secret, other.secret);
  auto mixed = one;
  mixed.client = other.client;
  send(mixed, 1, keys(1)); // Not answered: the next answer is that of the next question.
  send(other, 2, keys(1));
  EXPECT_TRUE(receive(other, 2));
  ::shutdown(first.get(), SHUT_RDWR);
  // Once the server has seen the end of the connection, its pass is worth nothing.
  bool is_good = true;
  for (std::uint64_t number = 10; is_good && number < 20'000; number += 2) {
    send(one, number, keys(1));
    send(other, number + 1, keys(1));
    is_good = false;
    for (std::uint64_t last = 0; last != number + 1;) {
      pollfd ready{socket.fd(), POLLIN, 0};
      ASSERT_EQ(::poll(&ready, 1, 10'000), 1);
      for (const auto& each : socket.receive()) {
        last = codec.answered_by(each.bytes).value_or(0);
        is_good |= last == number;
      }
    }
  }
  EXPECT_FALSE(is_good);
}

} // namespace peercache::actors
