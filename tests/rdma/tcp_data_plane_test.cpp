// What the TCP reader does with servers that are slow, restart, or say what they may not.

#include "rdma/tcp_protocol.hpp"
#include "tests/rdma/plane_rig.hpp"

#include <sched.h>
#include <sys/socket.h>

#include <cstring>

namespace peercache::rdma::tcp_data_plane_test {
namespace {

constexpr incarnation life{1, 1};

TEST(tcp_data_plane, never_opens_more_channels_than_allowed) {
  test_pool pool;
  tcp_rig rig;
  rig.serve(pool, life);
  std::vector<std::unique_ptr<test_batch>> many;
  for (int i = 0; i < 60; ++i)
    many.push_back(std::make_unique<test_batch>(pool, 3, 200'000));
  for (auto& each : many)
    rig.submit(*each, life);
  std::size_t most = 0;
  for (auto& each : many)
    while (!each->batch.complete()) {
      rig.step();
      most = std::max({most, rig.reader->channels(), rig.server->connections()});
    }
  EXPECT_EQ(most, limits::channels_per_peer_max);
  for (auto& each : many)
    EXPECT_TRUE(each->all(page_status::hit));
}

TEST(tcp_data_plane, a_batch_after_the_other_uses_one_connection) {
  test_pool pool;
  tcp_rig rig;
  rig.serve(pool, life);
  for (int i = 0; i < 10; ++i) {
    test_batch what(pool, 3, 1000);
    rig.read(what, life);
    EXPECT_TRUE(what.all(page_status::hit));
  }
  EXPECT_EQ(rig.plane().stats().connects, 1u);
}

TEST(tcp_data_plane, large_batches_are_striped_over_several_connections) {
  test_pool pool;
  tcp_data_plane_options opts;
  opts.stripe_bytes = 1u << 20;
  opts.request_bytes_max = 1u << 20;
  tcp_rig rig(opts);
  rig.serve(pool, life);
  test_batch what(pool, 100, 100'000);
  rig.read(what, life);
  EXPECT_TRUE(what.all(page_status::hit));
  for (std::size_t i = 0; i < 100; ++i)
    ASSERT_TRUE(what.holds(pool, i));
  EXPECT_EQ(rig.plane().stats().connects, opts.stripe_channels_max);
}

TEST(tcp_data_plane, the_deadline_in_the_middle_of_a_payload_stops_every_further_byte) {
  test_pool pool;
  tcp_rig rig;
  tcp_page_server_options opts;
  opts.inc = life;
  opts.faults.send_chunk_bytes = 100'000;
  opts.faults.between_chunks = [&rig] {
    rig.pass(std::chrono::microseconds(5));
    rig.plane().poll(rig.now);
  };
  rig.serve(pool, opts);
  test_batch what(pool, 8, 4u << 20);
  rig.submit(what, life, std::chrono::microseconds(80));
  rig.finish(what);
  EXPECT_EQ(what.batch.pages[7].status, page_status::timed_out);
  EXPECT_NE(what.memory[1], test_batch::untouched) << "the first bytes had come";
  EXPECT_EQ(rig.reader->channels(), 0u) << "what may still carry its bytes is closed";
  const auto returned = what.memory;
  rig.steps(2000);
  EXPECT_EQ(what.memory, returned);
  EXPECT_EQ(pool.pins(), 0);
}

TEST(tcp_data_plane, a_connection_that_was_closed_while_idle_is_replaced_without_a_miss) {
  test_pool pool;
  tcp_rig rig;
  rig.serve(pool, life);
  test_batch first(pool, 3, 1000);
  rig.read(first, life);
  rig.serve(pool, life); // The reader has not polled: it still believes in its connection.
  test_batch second(pool, 3, 1000);
  rig.read(second, life);
  EXPECT_TRUE(second.all(page_status::hit));
  EXPECT_EQ(rig.plane().stats().connects, 2u);
}

TEST(tcp_data_plane, idle_connections_and_peers_are_forgotten) {
  test_pool pool;
  tcp_rig rig;
  rig.serve(pool, life);
  test_batch what(pool, 3, 1000);
  rig.read(what, life);
  EXPECT_EQ(rig.reader->channels(), 1u);
  rig.pass(std::chrono::seconds(61));
  rig.steps(2);
  EXPECT_EQ(rig.reader->channels(), 0u);
}

TEST(tcp_data_plane, an_address_that_is_not_numeric_is_unreachable_and_never_looked_up) {
  tcp_rig rig;
  test_pool pool;
  test_batch what(pool, 1, 10);
  what.batch.peer = {{1}, life, "some-host.example", 1, "test"};
  what.batch.deadline = rig.now + std::chrono::seconds(1);
  rig.plane().submit(what.batch);
  rig.finish(what);
  EXPECT_TRUE(what.all(page_status::unreachable));
}

TEST(tcp_data_plane, batches_above_the_limit_are_refused) {
  test_pool pool;
  tcp_data_plane_options opts;
  opts.channels.batches_max = 2;
  tcp_rig rig(opts);
  rig.serve(pool, life, fault::silent);
  test_batch a(pool, 1, 10), b(pool, 1, 10), c(pool, 1, 10);
  rig.submit(a, life);
  rig.steps(2);
  rig.submit(b, life);
  rig.submit(c, life);
  EXPECT_TRUE(c.batch.complete() && c.all(page_status::refused));
  EXPECT_FALSE(a.batch.complete() || b.batch.complete());
  rig.plane().shutdown(); // The batches are gone before the rig is.
}

/// A server that sends the bytes it is given, whatever it is asked.
class scripted_server {
public:
  scripted_server() : listener_(std::move(*listen_on("127.0.0.1", 0, 16))) {}

  std::uint16_t port() const { return local_port(listener_); }

  void step(std::span<const std::byte> answer) {
    if (auto fd = accept_from(listener_, {})) {
      peer_ = std::move(fd);
      sent_ = 0;
    }
    std::byte ignored[4096];
    if (peer_ && ::recv(peer_.get(), ignored, sizeof ignored, MSG_DONTWAIT) >= 0)
      asked_ = true;
    if (peer_ && asked_ && sent_ < answer.size()) {
      const auto sent = ::send(peer_.get(), answer.data() + sent_, answer.size() - sent_,
                               MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent > 0)
        sent_ += static_cast<std::size_t>(sent);
    }
    if (sent_ == answer.size())
      peer_.reset();
  }

private:
  unique_fd listener_;
  unique_fd peer_;
  std::size_t sent_ = 0;
  bool asked_ = false;
};

template <class T>
void append_raw(std::vector<std::byte>& to, const T& value) {
  const auto* bytes = reinterpret_cast<const std::byte*>(&value);
  to.insert(to.end(), bytes, bytes + sizeof value);
}

std::vector<std::byte> right_answer(const test_pool& pool) {
  std::vector<std::byte> bytes;
  hello_answer hi;
  hi.inc = life;
  append_raw(bytes, hi);
  append_raw(bytes, answer_header{answer_magic, static_cast<std::uint32_t>(pool.slots.size()), 1});
  for (std::size_t i = 0; i < pool.slots.size(); ++i)
    bytes.push_back(static_cast<std::byte>(page_status::hit));
  for (const auto& slot : pool.slots)
    bytes.insert(bytes.end(), slot.bytes.begin(), slot.bytes.end());
  return bytes;
}

/// Reads all of `pool` from a server that says `answer`. What does not come in `within` is a miss.
void read_scripted(const test_pool& pool, std::span<const std::byte> answer, test_batch& what,
                   clock::duration within) {
  tcp_rig rig;
  scripted_server server;
  for (std::uint32_t i = 0; i < pool.slots.size(); ++i)
    what.add(pool, i, 1 + i % 3);
  what.lay_out();
  rig.port = server.port();
  rig.submit(what, life, within);
  while (!what.batch.complete()) {
    server.step(answer);
    rig.step();
  }
}

TEST(tcp_data_plane, mutated_answers_never_make_a_wrong_hit_nor_write_outside_the_parts) {
  test_pool pool;
  for (const std::size_t length_bytes : {1000, 7, 300})
    pool.put(length_bytes);
  const auto right = right_answer(pool);
  {
    test_batch what;
    read_scripted(pool, right, what,
                  std::chrono::seconds(60)); // Of steps, of which few are needed.
    ASSERT_TRUE(what.all(page_status::hit));
  }
  constexpr std::uint32_t seed = 20261121;
  std::mt19937 random(seed);
  for (int round = 0; round < 300; ++round) {
    auto answer = right;
    for (auto flips = 1 + random() % 3; flips > 0; --flips) {
      // Half of the damage goes to the heads, which are a small part of the stream.
      const auto range = random() % 2 == 0 ? 24 + 16 + 3 : answer.size();
      answer[random() % range] ^= static_cast<std::byte>(1 + random() % 255);
    }
    if (random() % 4 == 0)
      answer.resize(random() % answer.size());
    if (random() % 4 == 0)
      answer.resize(answer.size() + random() % 100);
    test_batch what;
    read_scripted(pool, answer, what, std::chrono::milliseconds(20));
    ASSERT_TRUE(what.guards_untouched()) << "seed " << seed << " round " << round;
    for (std::size_t i = 0; i < pool.slots.size(); ++i)
      ASSERT_TRUE(what.batch.pages[i].status != page_status::hit || what.holds(pool, i))
          << "seed " << seed << " round " << round;
  }
}

} // namespace
} // namespace peercache::rdma::tcp_data_plane_test
