// Tests that one data port serves both protocols: the page server must hand over connections that
// send a verbs hello.

#include "rdma/tcp/tcp_page_server.hpp"
#include "tests/rdma/plane_rig.hpp"
#include "tests/rdma/raw_peer.hpp"

#include <sched.h>

namespace peercache::rdma::verbs_hand_over_test {
namespace {

constexpr incarnation life{1, 1};

std::vector<std::byte> bytes_of(const auto& message) {
  std::vector<std::byte> bytes;
  append(bytes, message);
  return bytes;
}

verbs_hello verbs_greeting(std::uint8_t rail) {
  verbs_hello say;
  say.cluster = cluster_digest("test");
  say.inc = life;
  say.rail = rail;
  return say;
}

hello tcp_greeting() {
  hello say;
  say.cluster = cluster_digest("test");
  say.inc = life;
  return say;
}

class verbs_hand_over : public testing::Test {
protected:
  struct handed {
    raw_peer socket;
    verbs_hello greeting;
    clock::time_point came_at;
  };

  void serve(bool with_verbs) {
    tcp_page_server_options opts;
    opts.inc = life;
    opts.cluster = "test";
    if (with_verbs)
      opts.on_verbs_hello = [this](net::stream_socket socket, const verbs_hello& greeting,
                                   auto came_at) {
        arrived.push_back({raw_peer(net::unique_fd(::dup(socket.fd()))), greeting, came_at});
      };
    auto made = tcp_page_server::listen(opts, pool);
    ASSERT_TRUE(made);
    server = std::move(*made);
  }

  template <class F>
  bool eventually(F condition) {
    for (const auto until = clock::now() + std::chrono::seconds(30); clock::now() < until;) {
      if (condition())
        return true;
      if (!server->poll(now))
        sched_yield();
    }
    return false;
  }

  bool closes(raw_peer& peer) {
    return eventually([&] { return peer.receive(), peer.closed; });
  }

  /// Polls until the server has read everything that was sent before: sends garbage on a new
  /// connection, and waits until the server ends it.
  void settle() {
    raw_peer last(server->port());
    last.say(std::uint64_t{0});
    ASSERT_TRUE(closes(last));
  }

  test_pool pool;
  std::unique_ptr<tcp_page_server> server;
  clock::time_point now = clock::now();
  std::vector<handed> arrived;
};

TEST_F(verbs_hand_over, a_hello_in_single_bytes_is_given_away_when_the_last_one_is_there) {
  serve(true);
  raw_peer peer(server->port());
  const auto bytes = bytes_of(verbs_greeting(3));
  for (std::size_t i = 0; i + 1 < bytes.size(); ++i) {
    peer.send(std::span(bytes).subspan(i, 1));
    if (i % 16 == 0)
      settle();
  }
  settle();
  ASSERT_TRUE(arrived.empty());
  EXPECT_EQ(server->connections(), 1u);
  peer.send(std::span(bytes).last(1));
  ASSERT_TRUE(eventually([&] { return arrived.size() == 1; }));
  EXPECT_EQ(bytes_of(arrived[0].greeting), bytes);
  EXPECT_EQ(server->connections(), 0u);
  EXPECT_EQ(server->stats().given_away, 1u);
}

TEST_F(verbs_hand_over,
       it_tells_when_the_connection_was_accepted_and_not_when_the_hello_was_whole) {
  serve(true);
  const auto accepted_at = now;
  raw_peer peer(server->port());
  settle();
  ASSERT_EQ(server->connections(), 1u);
  now += std::chrono::milliseconds(300);
  peer.say(verbs_greeting(0));
  ASSERT_TRUE(eventually([&] { return arrived.size() == 1; }));
  EXPECT_EQ(arrived[0].came_at, accepted_at);
}

TEST_F(verbs_hand_over, what_follows_the_hello_stays_in_the_socket) {
  serve(true);
  raw_peer peer(server->port());
  auto bytes = bytes_of(verbs_greeting(0));
  append(bytes, verbs_ready{});
  peer.send(bytes);
  ASSERT_TRUE(eventually([&] { return arrived.size() == 1; }));
  const auto ready = arrived[0].socket.hear<verbs_ready>();
  ASSERT_TRUE(ready);
  EXPECT_TRUE(well_formed(*ready));
}

TEST_F(verbs_hand_over, the_page_server_no_longer_has_a_part_in_the_connection) {
  serve(true);
  raw_peer peer(server->port());
  peer.say(verbs_greeting(0));
  ASSERT_TRUE(eventually([&] { return arrived.size() == 1; }));
  now += std::chrono::hours(1);
  settle();
  peer.say(verbs_ready{});
  const auto began = clock::now();
  server->wait(std::chrono::milliseconds(20));
  EXPECT_GE(clock::now() - began, std::chrono::milliseconds(20)) << "woken by another's bytes";
  EXPECT_TRUE(arrived[0].socket.hear<verbs_ready>()) << "read by nobody else, and not reaped";
  server.reset();
  arrived[0].socket.say(verbs_answer{});
  EXPECT_TRUE(peer.hear<verbs_answer>());
}

TEST_F(verbs_hand_over, half_a_hello_is_reaped_in_time) {
  serve(true);
  raw_peer peer(server->port());
  const auto bytes = bytes_of(verbs_greeting(0));
  peer.send(std::span(bytes).first(127));
  settle();
  ASSERT_EQ(server->connections(), 1u);
  now += std::chrono::milliseconds(1000);
  settle();
  EXPECT_EQ(server->connections(), 1u);
  now += std::chrono::milliseconds(1000);
  EXPECT_TRUE(closes(peer));
  EXPECT_EQ(server->stats().reaped, 1u);
  EXPECT_TRUE(arrived.empty());
}

TEST_F(verbs_hand_over, garbage_behind_the_common_beginning_closes_at_its_first_byte) {
  serve(true);
  for (const std::string text : {"PX", "PCX", "PCVX", "PCTX", "PCVA"}) {
    raw_peer peer(server->port());
    peer.send(std::as_bytes(std::span(text)));
    EXPECT_TRUE(closes(peer)) << text;
  }
  EXPECT_TRUE(arrived.empty());
}

TEST_F(verbs_hand_over, both_protocols_live_on_one_port) {
  serve(true);
  const auto slot = pool.put(1000);
  auto tcp_bytes = bytes_of(tcp_greeting());
  append(tcp_bytes, request_header{request_magic, 1, 1});
  append(tcp_bytes, request_record{pool.slots[slot].key, pool.slots[slot].gen, {slot}, 1000});
  constexpr std::size_t expected = sizeof(hello_answer) + answer_head_bytes(1) + 1000;
  std::vector<raw_peer> tcp, verbs;
  for (std::uint8_t i = 0; i < 20; ++i) {
    tcp.emplace_back(server->port()).send(tcp_bytes);
    verbs.emplace_back(server->port()).say(verbs_greeting(i));
  }
  ASSERT_TRUE(eventually([&] { return arrived.size() == verbs.size(); }));
  std::uint32_t rails = 0;
  for (const auto& each : arrived)
    rails |= 1u << each.greeting.rail;
  EXPECT_EQ(rails, (1u << 20) - 1);
  for (auto& each : tcp) {
    std::size_t got = 0;
    EXPECT_TRUE(eventually([&] { return (got += each.receive()) == expected; }));
  }
  EXPECT_EQ(server->connections(), tcp.size());
}

TEST_F(verbs_hand_over, a_node_without_a_device_says_so_and_closes) {
  serve(false);
  raw_peer peer(server->port());
  peer.say(verbs_greeting(0));
  std::optional<verbs_answer> answer;
  ASSERT_TRUE(eventually([&] { return (answer = peer.hear<verbs_answer>()).has_value(); }));
  EXPECT_EQ(answer->magic, verbs_answer_magic);
  EXPECT_EQ(answer->verdict, verbs_verdict::no_device);
  EXPECT_EQ(answer->inc, incarnation{}) << "nobody who is refused learns it";
  EXPECT_TRUE(closes(peer));
}

} // namespace
} // namespace peercache::rdma::verbs_hand_over_test
