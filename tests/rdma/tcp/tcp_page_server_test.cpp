// Tests of the page server with peers that are slow, silent, too many, or speak another protocol.

#include "common/test_guards.hpp"
#include "rdma/tcp/tcp_protocol.hpp"
#include "tests/rdma/plane_rig.hpp"
#include "tests/rdma/raw_peer.hpp"

#include <sched.h>

#include <cstring>

namespace peercache::rdma::tcp_page_server_test {
namespace {

constexpr incarnation life{1, 1};

std::vector<std::byte> greeting() {
  std::vector<std::byte> bytes;
  hello say;
  say.cluster = cluster_digest("test");
  say.inc = life;
  append(bytes, say);
  return bytes;
}

std::vector<std::byte> request_for(const test_pool& pool, std::vector<std::uint32_t> slots) {
  std::vector<std::byte> bytes;
  append(bytes, request_header{request_magic, static_cast<std::uint32_t>(slots.size()), 1});
  for (const auto slot : slots) {
    const auto& from = pool.slots[slot];
    append(bytes, request_record{
                      from.key, from.gen, {slot}, static_cast<std::uint32_t>(from.bytes.size())});
  }
  return bytes;
}

class tcp_page_server_test : public testing::Test {
protected:
  void serve(tcp_page_server_options opts = {}) {
    opts.inc = life;
    opts.cluster = "test";
    auto made = tcp_page_server::listen(opts, pool);
    ASSERT_TRUE(made);
    server = std::move(*made);
  }

  void steps(int count) {
    for (int i = 0; i < count; ++i)
      if (!server->poll(now) && ++idle_steps % 64 == 0)
        sched_yield();
  }

  /// Polls the server until `condition` holds or 30 s have passed. Returns whether the condition
  /// holds.
  template <class F>
  bool eventually(F condition) {
    for (const auto until = clock::now() + std::chrono::seconds(30); clock::now() < until;) {
      if (condition())
        return true;
      steps(1);
    }
    return false;
  }

  bool closes(raw_peer& peer) {
    return eventually([&] { return peer.receive(), peer.closed; });
  }

  test_pool pool;
  std::unique_ptr<tcp_page_server> server;
  clock::time_point now = clock::now();
  unsigned idle_steps = 0;
};

TEST_F(tcp_page_server_test, garbage_closes_the_connection) {
  serve();
  raw_peer peer(server->port());
  const std::string text = "GET / HTTP/1.1\r\n\r\n";
  peer.send(std::as_bytes(std::span(text)));
  EXPECT_TRUE(closes(peer));
  EXPECT_EQ(server->connections(), 0u);
}

TEST_F(tcp_page_server_test, connections_that_rest_for_too_long_are_reaped) {
  tcp_page_server_options opts;
  serve(opts);
  raw_peer reader(server->port());
  reader.send(greeting());
  ASSERT_TRUE(eventually([&] { return reader.hear<hello_answer>().has_value(); }));
  now += opts.idle_timeout - std::chrono::seconds(5);
  steps(1);
  EXPECT_EQ(server->connections(), 1u);
  now += std::chrono::seconds(6);
  steps(1);
  EXPECT_EQ(server->stats().reaped, 1u);
  EXPECT_TRUE(closes(reader));
}

TEST_F(tcp_page_server_test, connections_without_a_hello_are_reaped) {
  serve();
  raw_peer silent(server->port());
  raw_peer trickling(server->port());
  ASSERT_TRUE(eventually([&] { return server->connections() == 2; }));
  const auto hello_bytes = greeting();
  for (int i = 0; i < 5; ++i) {
    trickling.send(std::span(hello_bytes).subspan(static_cast<std::size_t>(i), 1));
    steps(50);
    now += std::chrono::milliseconds(600);
  }
  EXPECT_TRUE(closes(silent));
  EXPECT_TRUE(closes(trickling)) << "a byte now and then must not buy time";
  EXPECT_EQ(server->stats().reaped, 2u);
}

TEST_F(tcp_page_server_test, connections_above_the_limit_are_turned_away) {
  tcp_page_server_options opts;
  opts.connections_max = 2;
  serve(opts);
  raw_peer first(server->port()), second(server->port()), third(server->port());
  EXPECT_TRUE(closes(third));
  EXPECT_FALSE(first.closed || second.closed);
  EXPECT_EQ(server->connections(), 2u);
}

TEST_F(tcp_page_server_test, a_reader_that_takes_nothing_loses_its_pins_after_send_timeout) {
  serve();
  const auto slot = pool.put(64u << 20);
  raw_peer peer(server->port());
  auto bytes = greeting();
  const auto request = request_for(pool, {slot});
  bytes.insert(bytes.end(), request.begin(), request.end());
  peer.send(bytes);
  ASSERT_TRUE(eventually([&] { return pool.pins() == 1; }));
  steps(100);
  ASSERT_EQ(pool.pins(), 1) << "64 MiB do not fit into a socket";
  now += std::chrono::milliseconds(2500);
  steps(2);
  EXPECT_EQ(pool.pins(), 0);
  EXPECT_EQ(server->pinned_bytes(), 0u);
}

TEST_F(tcp_page_server_test, pinned_bytes_have_a_limit_and_who_waits_is_served_later) {
  tcp_page_server_options opts;
  opts.pinned_bytes_max = 64u << 20;
  serve(opts);
  const auto slot = pool.put(40u << 20);
  auto bytes = greeting();
  const auto request = request_for(pool, {slot});
  bytes.insert(bytes.end(), request.begin(), request.end());
  raw_peer first(server->port()), second(server->port());
  first.send(bytes);
  second.send(bytes);
  steps(300);
  EXPECT_EQ(pool.pins(), 1);
  EXPECT_EQ(server->pinned_bytes(), 40u << 20);
  std::size_t first_bytes = 0, second_bytes = 0;
  EXPECT_TRUE(eventually([&] {
    first_bytes += first.receive();
    second_bytes += second.receive();
    return std::min(first_bytes, second_bytes) >= 40u << 20;
  }));
  EXPECT_EQ(pool.pins(), 0);
}

TEST_F(tcp_page_server_test, another_cluster_or_version_is_told_so_and_nothing_else) {
  serve();
  for (const bool other_version : {true, false}) {
    hello say;
    say.version = other_version ? tcp_wire_version + 1 : tcp_wire_version;
    say.inc = life;
    std::vector<std::byte> bytes;
    append(bytes, say);
    raw_peer peer(server->port());
    peer.send(bytes);
    hello_answer answer;
    ASSERT_TRUE(eventually([&] {
      return ::recv(peer.fd.get(), &answer, sizeof answer, MSG_DONTWAIT) == sizeof answer;
    }));
    EXPECT_EQ(answer.verdict,
              other_version ? hello_verdict::incompatible : hello_verdict::other_cluster);
    EXPECT_EQ(answer.inc, incarnation{}) << "it would know how to be accepted";
    EXPECT_TRUE(closes(peer));
  }
}

TEST_F(tcp_page_server_test, frames_beyond_the_limits_close_the_connection) {
  serve();
  const auto slot = pool.put(100);
  const auto rejected = [&](auto damage) {
    auto bytes = greeting();
    auto request = request_for(pool, std::vector<std::uint32_t>(3, slot));
    damage(request);
    bytes.insert(bytes.end(), request.begin(), request.end());
    raw_peer peer(server->port());
    peer.send(bytes);
    return closes(peer);
  };
  const auto word_at = [](std::size_t offset, std::uint32_t value) {
    return [=](std::vector<std::byte>& frame) { std::memcpy(&frame[offset], &value, 4); };
  };
  const auto length_of_record = [](std::size_t n) { return 16 + n * 72 + 44; };
  EXPECT_TRUE(rejected(word_at(0, 7))) << "magic";
  EXPECT_TRUE(rejected(word_at(4, 0))) << "no page";
  EXPECT_TRUE(rejected(word_at(4, request_pages_max + 1)));
  EXPECT_TRUE(rejected(word_at(4, 0xFFFFFFFF)));
  EXPECT_TRUE(rejected(word_at(length_of_record(1), 0)));
  EXPECT_TRUE(rejected(word_at(length_of_record(1), limits::page_bytes_max + 1)));
  EXPECT_TRUE(rejected(word_at(length_of_record(1), request_bytes_max)))
      << "together above the limit";
  auto bytes = greeting();
  const auto request = request_for(pool, std::vector<std::uint32_t>(3, slot));
  bytes.insert(bytes.end(), request.begin(), request.end());
  raw_peer peer(server->port());
  peer.send(bytes);
  constexpr std::size_t expected = sizeof(hello_answer) + answer_head_bytes(3) + 3 * 100;
  std::size_t got = 0;
  EXPECT_TRUE(eventually([&] { return (got += peer.receive()) == expected; }));
  EXPECT_FALSE(peer.closed);
}

TEST_F(tcp_page_server_test, mutated_streams_neither_crash_nor_leak_pins) {
  serve();
  pool.put(3000);
  pool.put(1);
  auto stream = greeting();
  for (const auto& slots : {std::vector<std::uint32_t>{0, 1, 0}, {1}, {0}}) {
    const auto request = request_for(pool, slots);
    stream.insert(stream.end(), request.begin(), request.end());
  }
  constexpr std::uint32_t seed = 20261120;
  std::mt19937 random(seed);
  for (int round = 0; round < 1500; ++round) {
    auto bytes = stream;
    for (auto flips = 1 + random() % 4; flips > 0; --flips)
      bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    bytes.resize(1 + random() % bytes.size());
    raw_peer peer(server->port());
    for (std::size_t at = 0; at < bytes.size();) {
      const auto piece = std::min<std::size_t>(1 + random() % 200, bytes.size() - at);
      peer.send(std::span(bytes).subspan(at, piece));
      at += piece;
      steps(1);
    }
    peer.receive();
  }
  EXPECT_TRUE(eventually([&] { return server->connections() == 0; })) << "seed " << seed;
  EXPECT_EQ(pool.pins(), 0) << "seed " << seed;
  EXPECT_EQ(server->pinned_bytes(), 0u);
}

/// Whether a page arrives with the right bytes although the pool evicts between the chunks of the
/// answer.
bool slow_answer_is_right() {
  test_pool pool;
  tcp_rig rig;
  tcp_page_server_options opts;
  opts.inc = life;
  opts.faults.send_chunk_bytes = 50'000;
  const auto original = pool.put(1u << 20);
  const auto copy = pool.slots[original].bytes;
  opts.faults.between_chunks = [&pool] { pool.reuse_unpinned(); };
  rig.serve(pool, opts);
  test_batch what;
  what.add(pool, original);
  what.batch.pages[0].verify = false;
  what.lay_out();
  rig.read(what, life);
  const auto got = what.bytes_of(0);
  return std::equal(got.begin(), got.end(), copy.begin(), copy.end());
}

TEST(tcp_pins, a_page_does_not_change_while_it_is_sent) {
  EXPECT_TRUE(slow_answer_is_right());
}

TEST(tcp_pins, without_the_guard_it_would) {
  const guard_switched_off off(guard::pin);
  EXPECT_FALSE(slow_answer_is_right());
}

} // namespace
} // namespace peercache::rdma::tcp_page_server_test
