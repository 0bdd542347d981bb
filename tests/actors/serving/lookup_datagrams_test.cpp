#include "actors/serving/lookup_datagrams.hpp"

#include "directory/wire.hpp"

#include <gtest/gtest.h>
#include <poll.h>

namespace peercache::actors {
namespace {

using namespace std::chrono_literals;
using link::lookup_reply;

/// A node's side of the datagrams, and a socket that asks it.
class lookup_datagrams_test : public testing::Test {
protected:
  static constexpr std::uint64_t client = 21;
  const incarnation self{3, 4};
  const std::shared_ptr<served_datagrams> counts = std::make_shared<served_datagrams>();
  net::unique_fd holder;
  net::datagram_address at;
  lookup_datagrams served = open();
  net::datagram_socket asking = *net::datagram_socket::open(family());
  link::lookup_datagrams_codec codec;
  lookup_datagrams::time_point now{1h};
  /// What the shard says; nothing: it is busy.
  std::optional<std::string> says = "places";
  std::vector<std::string> asked;

  static int family() { return net::datagram_address::of("127.0.0.1", 1)->family(); }
  lookup_datagrams open() {
    // A port that nobody else has: that of a listener.
    holder = *net::hold_port("127.0.0.1", 0);
    at = *net::datagram_address::of("127.0.0.1", net::local_port(holder));
    return {*net::datagram_socket::bind("127.0.0.1", net::local_port(holder)), self, counts};
  }
  static std::string keys(std::size_t count) {
    return std::string(count * directory::wire::key_bytes, 'k');
  }
  link::datagram_pass pass() { return *link::read_pass(served.pass_of(client, at.host())); }
  std::string question(const link::datagram_pass& by, std::uint64_t number,
                       const std::string& text = keys(1)) {
    std::string bytes;
    codec.append_question(bytes, by, self, number, text);
    return bytes;
  }
  void send(const std::string& bytes) {
    net::datagram one{at, bytes};
    asking.send(std::span(&one, 1));
    EXPECT_TRUE(one.is_sent);
  }
  static bool has_come(int fd) {
    pollfd ready{fd, POLLIN, 0};
    return ::poll(&ready, 1, 0) == 1;
  }
  /// Lets the node serve what was sent. On loopback a datagram has arrived when its `send` returns.
  bool serve() {
    return served.serve(
        [this](std::string_view text) -> std::optional<result<std::string>> {
          asked.emplace_back(text);
          if (!says)
            return std::nullopt;
          return result<std::string>(*says);
        },
        now);
  }
  /// The answers that have come.
  std::vector<std::pair<std::uint64_t, lookup_reply>> answers(const link::datagram_pass& by) {
    std::vector<std::pair<std::uint64_t, lookup_reply>> all;
    for (const auto& each : asking.receive()) {
      const auto number = codec.answered_by(each.bytes);
      const auto answer = number ? codec.open_answer(each.bytes, by.secret, self) : std::nullopt;
      EXPECT_TRUE(answer);
      if (answer)
        all.emplace_back(*number, answer->reply);
      if (answer && answer->reply == lookup_reply::places) {
        EXPECT_EQ(answer->body, *says);
      }
    }
    return all;
  }
};

} // namespace

TEST_F(lookup_datagrams_test, a_client_with_a_pass_is_answered) {
  const auto by = pass();
  EXPECT_EQ(by.client, client);
  EXPECT_EQ(by, pass()) << "each hello is answered with the same pass";
  send(question(by, 1, keys(2)));
  send(question(by, 2));
  EXPECT_FALSE(serve());
  EXPECT_EQ(asked, (std::vector{keys(2), keys(1)}));
  EXPECT_EQ(answers(by), (std::vector{std::pair{std::uint64_t{1}, lookup_reply::places},
                                      std::pair{std::uint64_t{2}, lookup_reply::places}}));
  EXPECT_EQ(counts->counted().answered, 2u);
}

TEST_F(lookup_datagrams_test, strangers_are_not_answered) {
  const auto by = pass();
  auto other_client = by;
  ++other_client.client;
  auto other_secret = by;
  other_secret.secret[0] ^= 1;
  const auto good = question(by, 1);
  std::string for_another;
  codec.append_question(for_another, by, {3, 5}, 1, keys(1));
  const std::vector<std::string> all{"x",
                                     std::string(1400, '\0'),
                                     question(other_client, 1),
                                     question(other_secret, 1),
                                     good.substr(0, good.size() - 1),
                                     for_another,
                                     question(by, 1, keys(1) + "x"),
                                     question(by, 1, ""),
                                     question(by, 1, keys(link::datagram_keys_max + 1))};
  for (const auto& each : all)
    send(each);
  serve();
  EXPECT_TRUE(asked.empty());
  EXPECT_FALSE(has_come(asking.fd()));
  EXPECT_EQ(counts->counted().refused, all.size());
}

TEST_F(lookup_datagrams_test, a_client_is_answered_at_its_own_address_alone) {
  const auto elsewhere = net::datagram_address::of("127.0.0.2", 1);
  const auto by = *link::read_pass(served.pass_of(client, elsewhere->host()));
  send(question(by, 1));
  serve();
  EXPECT_FALSE(has_come(asking.fd()));
  EXPECT_EQ(counts->counted().refused, 1u);
}

TEST_F(lookup_datagrams_test, a_pass_ends_with_its_connection) {
  const auto by = pass();
  served.forget(client);
  send(question(by, 1));
  serve();
  EXPECT_FALSE(has_come(asking.fd()));
  EXPECT_NE(pass().secret, by.secret);
}

TEST_F(lookup_datagrams_test, what_cannot_be_answered_at_once_is_sent_to_tcp) {
  const auto by = pass();
  says = std::nullopt;
  send(question(by, 1));
  serve();
  EXPECT_EQ(answers(by), (std::vector{std::pair{std::uint64_t{1}, lookup_reply::over_tcp}}));
  says = std::string(link::datagram_body_max + 1, 'p');
  send(question(by, 2));
  serve();
  EXPECT_EQ(answers(by), (std::vector{std::pair{std::uint64_t{2}, lookup_reply::over_tcp}}));
  EXPECT_EQ(counts->counted().sent_to_tcp, 2u);
}

TEST_F(lookup_datagrams_test, a_question_that_is_sent_again_is_sealed_anew) {
  const auto by = pass();
  const auto bytes = question(by, 1);
  send(bytes);
  send(bytes);
  serve();
  const auto both = asking.receive();
  ASSERT_EQ(both.size(), 2u);
  EXPECT_NE(both[0].bytes, both[1].bytes) << "one nonce would seal two answers";
}

TEST_F(lookup_datagrams_test, a_client_that_asks_too_much_is_not_answered_for_a_while) {
  const auto by = pass();
  std::uint64_t number = 0;
  while (counts->counted().paced == 0) {
    send(question(by, ++number));
    serve();
    asking.receive();
    ASSERT_LE(number, std::uint64_t{lookup_datagrams::questions_at_once} + 10);
  }
  EXPECT_GE(number, std::uint64_t{lookup_datagrams::questions_at_once});
  now += 1ms;
  send(question(by, ++number));
  serve();
  EXPECT_EQ(answers(by).size(), 1u);
}

TEST_F(lookup_datagrams_test, a_turn_is_bounded) {
  const auto by = pass();
  for (std::size_t i = 0; i <= net::datagram_socket::turn_max; ++i)
    send(question(by, i));
  EXPECT_TRUE(serve());
  EXPECT_EQ(asked.size(), net::datagram_socket::turn_max);
  EXPECT_FALSE(serve());
  EXPECT_EQ(asked.size(), net::datagram_socket::turn_max + 1);
}

} // namespace peercache::actors
