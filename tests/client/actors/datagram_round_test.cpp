#include "client/lookup/datagram_round.hpp"

#include "directory/wire.hpp"
#include "tests/client/actors/lookup_server.hpp"

#include <gtest/gtest.h>
#include <memory>
#include <poll.h>

namespace peercache::client {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;
using state = lookup_carrier::state;
using link::lookup_reply;

/// An owner whose datagrams the test answers by hand; over TCP a thread answers.
struct played_owner {
  explicit played_owner(std::uint64_t number)
      : inc{number, number}, tcp(inc),
        udp(*net::datagram_socket::bind("127.0.0.1", tcp.port())), pass{number + 100,
                                                                        *net::make_datagram_key()} {
    peer.self.id = {number};
    peer.self.inc = inc;
    peer.self.name = "owner" + std::to_string(number);
    peer.self.host = "127.0.0.1";
    peer.lookup_port = tcp.port();
    peer.reached = true;
  }

  struct question {
    net::datagram_address from;
    std::uint64_t number = 0;
    std::string keys;
  };
  /// The questions that have come since the last call.
  std::vector<question> questions() {
    std::vector<question> all;
    for (std::size_t count = 1; count > 0;) {
      const auto some = udp.receive();
      count = some.size();
      for (const auto& each : some) {
        const auto said = codec.question_of(each.bytes);
        EXPECT_TRUE(said);
        const auto keys = said ? codec.open_question(each.bytes, pass.secret, inc) : std::nullopt;
        EXPECT_TRUE(keys);
        if (keys)
          all.push_back({each.peer, said->number, std::string(*keys)});
      }
    }
    return all;
  }
  std::string sealed(const question& asked, const std::string& body,
                     lookup_reply reply = lookup_reply::places) {
    std::string bytes;
    codec.append_answer(bytes, pass.secret, inc, asked.number, ++nonce, {reply, body});
    return bytes;
  }
  void send(const question& asked, const std::string& bytes) {
    net::datagram one{asked.from, bytes};
    udp.send(std::span(&one, 1));
    EXPECT_TRUE(one.is_sent);
  }

  const incarnation inc;
  lookup_server tcp;
  net::datagram_socket udp;
  link::datagram_pass pass;
  link::peer peer;
  link::lookup_datagrams_codec codec;
  std::uint64_t nonce = 0;
};

class datagram_round_test : public testing::Test {
protected:
  datagram_round_test() {
    for (std::uint64_t i = 0; i < 3; ++i) {
      auto& made = *owners.emplace_back(std::make_unique<played_owner>(i + 1));
      known.learn(made.inc, "127.0.0.1", made.peer.lookup_port, made.pass);
      view.members.push_back(made.peer.self);
    }
    view.version = 1;
    channels.follow(view);
  }

  static std::string keys(std::size_t count) {
    std::string packed;
    for (std::size_t i = 0; i < count; ++i)
      directory::append_lookup(packed, key_space{}.key_of(std::to_string(i)));
    return packed;
  }
  /// Asks an owner; the answer is taken with `ends`.
  std::unique_ptr<lookup_carrier> ask(played_owner& owner) {
    auto carrier = round.carrier_to(owner.peer, request.size());
    EXPECT_NE(carrier, nullptr);
    if (carrier) {
      EXPECT_EQ(carrier->start(request), state::asking);
    }
    return carrier;
  }
  /// Takes the datagrams that were sent; on loopback they have arrived when `send` returns.
  void receive() { round.receive(); }
  /// Moves the carrier on until its question is over.
  state ends(lookup_carrier& carrier) {
    const auto until = steady_clock::now() + 10s;
    while (steady_clock::now() < until) {
      if (const auto now = carrier.advance(); now != state::asking)
        return now;
      auto ready = carrier.awaited();
      ::poll(&ready, 1, 1);
    }
    return state::asking;
  }
  bool may_ask(const played_owner& owner) const {
    return known.find(owner.inc, steady_clock::now()) != nullptr;
  }

  const std::string request = keys(2);
  discovery::view view;
  std::vector<std::unique_ptr<played_owner>> owners;
  datagram_owners known{true};
  lookup_channels channels{"test"};
  counters totals;
  datagram_round round{known, channels, totals};
};

} // namespace

TEST_F(datagram_round_test, each_question_gets_the_answer_of_its_owner) {
  std::vector<std::unique_ptr<lookup_carrier>> carriers;
  for (auto& owner : owners)
    carriers.push_back(ask(*owner));
  round.send();
  EXPECT_EQ(totals.datagrams_sent, 3u);
  // The answers come in another order, and twice.
  for (std::size_t i = owners.size(); i-- > 0;) {
    const auto asked = owners[i]->questions();
    ASSERT_EQ(asked.size(), 1u);
    EXPECT_EQ(asked[0].keys, request);
    const auto bytes = owners[i]->sealed(asked[0], "of " + std::to_string(i));
    owners[i]->send(asked[0], bytes);
    owners[i]->send(asked[0], bytes);
  }
  receive();
  for (std::size_t i = 0; i < carriers.size(); ++i) {
    EXPECT_EQ(carriers[i]->look_at(), steady_clock::time_point{});
    ASSERT_EQ(carriers[i]->advance(), state::answered);
    EXPECT_EQ(carriers[i]->answer(), "of " + std::to_string(i));
  }
  EXPECT_EQ(totals.datagrams_dropped, 3u) << "those that came twice";
  EXPECT_EQ(totals.datagrams_over_tcp, 0u);
  EXPECT_LT(round.awaited().fd, 0) << "nothing is awaited any longer";
}

TEST_F(datagram_round_test, an_answer_to_an_earlier_question_is_nobodys) {
  auto& owner = *owners[0];
  auto first = ask(owner);
  round.send();
  const auto earlier = owner.questions();
  ASSERT_EQ(earlier.size(), 1u);
  first.reset(); // Nobody waits for it any longer.
  auto second = ask(owner);
  round.send();
  const auto later = owner.questions();
  ASSERT_EQ(later.size(), 1u);
  EXPECT_NE(earlier[0].number, later[0].number);
  owner.send(earlier[0], owner.sealed(earlier[0], "late"));
  receive();
  EXPECT_EQ(totals.datagrams_dropped, 1u);
  EXPECT_EQ(second->look_at() == steady_clock::time_point{}, false);
  owner.send(later[0], owner.sealed(later[0], "right"));
  receive();
  ASSERT_EQ(second->advance(), state::answered);
  EXPECT_EQ(second->answer(), "right");
}

TEST_F(datagram_round_test, an_answer_in_the_socket_of_an_earlier_call_is_nobodys) {
  auto& owner = *owners[0];
  played_owner::question earlier;
  {
    datagram_round before{known, channels, totals};
    auto carrier = before.carrier_to(owner.peer, request.size());
    carrier->start(request);
    before.send();
    earlier = owner.questions().at(0);
  }
  owner.send(earlier, owner.sealed(earlier, "late"));
  auto carrier = ask(owner); // With the same socket.
  round.send();
  const auto asked = owner.questions().at(0);
  EXPECT_EQ(asked.from, earlier.from);
  receive();
  EXPECT_EQ(totals.datagrams_dropped, 1u);
  owner.send(asked, owner.sealed(asked, "right"));
  receive();
  ASSERT_EQ(carrier->advance(), state::answered);
  EXPECT_EQ(carrier->answer(), "right");
}

TEST_F(datagram_round_test, what_the_owner_has_not_sealed_is_dropped) {
  auto& owner = *owners[0];
  auto& other = *owners[1];
  auto carrier = ask(owner);
  round.send();
  const auto asked = owner.questions().at(0);
  // Another owner answers, an owner before this one, and somebody who changes bytes.
  other.send(asked, other.sealed(asked, "of another"));
  std::string of_another_process;
  owner.codec.append_answer(of_another_process, owner.pass.secret, {9, 9}, asked.number, 77,
                            {lookup_reply::places, "of another process"});
  owner.send(asked, of_another_process);
  auto changed = owner.sealed(asked, "changed");
  changed.back() = static_cast<char>(changed.back() ^ 1);
  owner.send(asked, changed);
  owner.send(asked, "");
  owner.send(asked, std::string(1500, '2'));
  receive();
  EXPECT_EQ(totals.datagrams_dropped, 5u);
  owner.send(asked, owner.sealed(asked, "right"));
  receive();
  ASSERT_EQ(carrier->advance(), state::answered);
  EXPECT_EQ(carrier->answer(), "right");
}

TEST_F(datagram_round_test, a_lost_datagram_is_asked_over_tcp) {
  auto& owner = *owners[0];
  auto carrier = ask(owner);
  round.send();
  const auto sent = steady_clock::now();
  EXPECT_EQ(ends(*carrier), state::answered);
  EXPECT_GE(steady_clock::now() - sent, datagram_round::patience - 1ms);
  EXPECT_EQ(carrier->answer(), std::string(2, '\0')) << "two keys that nobody has";
  EXPECT_EQ(owner.tcp.questions(), 1u);
  EXPECT_EQ(totals.datagrams_over_tcp, 1u);
  carrier->keep();
  EXPECT_TRUE(may_ask(owner));
}

TEST_F(datagram_round_test, an_owner_whose_datagrams_are_blocked_is_asked_over_tcp_for_a_while) {
  auto& owner = *owners[0];
  for (std::uint32_t i = 0; i < datagram_owner::misses_max; ++i) {
    ASSERT_TRUE(may_ask(owner));
    auto carrier = ask(owner);
    round.send();
    EXPECT_EQ(ends(*carrier), state::answered);
  }
  EXPECT_FALSE(may_ask(owner));
  EXPECT_EQ(round.carrier_to(owner.peer, request.size()), nullptr);
  EXPECT_TRUE(may_ask(*owners[1]));
  const auto after = steady_clock::now() + datagram_owner::pause;
  const auto again = known.find(owner.inc, after);
  ASSERT_NE(again, nullptr);
  again->missed(after);
  EXPECT_EQ(known.find(owner.inc, after), nullptr) << "one more loss begins the next pause";
  again->heard();
  again->missed(after);
  EXPECT_NE(known.find(owner.inc, after + datagram_owner::pause), nullptr);
}

TEST_F(datagram_round_test, an_owner_that_fails_over_tcp_too_is_not_taken_for_blocked) {
  auto& owner = *owners[0];
  owner.tcp.behave(lookup_server::manner::breaks);
  for (std::uint32_t i = 0; i <= datagram_owner::misses_max; ++i) {
    auto carrier = ask(owner);
    round.send();
    EXPECT_EQ(ends(*carrier), state::broken);
  }
  EXPECT_TRUE(may_ask(owner));
}

TEST_F(datagram_round_test, an_owner_whose_datagrams_are_late_is_not_taken_for_blocked) {
  auto& owner = *owners[0];
  for (std::uint32_t i = 0; i <= datagram_owner::misses_max; ++i) {
    auto carrier = ask(owner);
    round.send();
    const auto asked = owner.questions().at(0);
    owner.tcp.behave(lookup_server::manner::silent);
    while (carrier->awaited().fd < 0) // Until the question is asked over TCP.
      ASSERT_EQ(carrier->advance(), state::asking);
    owner.send(asked, owner.sealed(asked, "late"));
    receive();
    EXPECT_EQ(carrier->advance(), state::asking) << "the connection is to be used again";
  }
  EXPECT_EQ(totals.datagrams_dropped, 0u);
  EXPECT_TRUE(may_ask(owner));
}

TEST_F(datagram_round_test, an_owner_may_send_a_question_to_tcp_at_once) {
  auto& owner = *owners[0];
  for (std::uint32_t i = 0; i <= datagram_owner::misses_max; ++i) {
    auto carrier = ask(owner);
    round.send();
    const auto asked = owner.questions().at(0);
    owner.send(asked, owner.sealed(asked, "", lookup_reply::over_tcp));
    receive();
    EXPECT_EQ(carrier->look_at(), steady_clock::time_point{});
    EXPECT_EQ(ends(*carrier), state::answered);
    carrier->keep();
  }
  EXPECT_TRUE(may_ask(owner)) << "nothing was lost";
}

TEST_F(datagram_round_test, questions_beyond_the_window_are_sent_as_answers_come) {
  auto& owner = *owners[0];
  constexpr auto window = datagram_round::in_flight_max;
  std::vector<std::unique_ptr<lookup_carrier>> carriers;
  for (std::size_t i = 0; i < window + 2; ++i)
    carriers.push_back(ask(owner));
  round.send();
  const auto first = owner.questions();
  EXPECT_EQ(first.size(), window);
  owner.send(first[0], owner.sealed(first[0], "one"));
  receive();
  EXPECT_EQ(owner.questions().size(), 1u);
  EXPECT_EQ(ends(*carriers[1]), state::answered) << "lost, and over TCP";
  EXPECT_EQ(owner.questions().size(), 1u) << "a lost datagram makes room as well";
}

TEST_F(datagram_round_test, long_questions_and_members_without_a_pass_go_over_tcp) {
  EXPECT_NE(round.carrier_to(owners[0]->peer, keys(link::datagram_keys_max).size()), nullptr);
  EXPECT_EQ(round.carrier_to(owners[0]->peer, keys(link::datagram_keys_max + 1).size()), nullptr);
  known.forget(owners[0]->inc);
  EXPECT_EQ(round.carrier_to(owners[0]->peer, request.size()), nullptr);
  datagram_owners unwanted{false};
  unwanted.learn(owners[1]->inc, "127.0.0.1", owners[1]->peer.lookup_port, owners[1]->pass);
  EXPECT_EQ(unwanted.find(owners[1]->inc, steady_clock::now()), nullptr);
}

} // namespace peercache::client
