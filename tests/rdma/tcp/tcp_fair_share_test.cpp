// Tests of how the page server limits the bytes that slow readers keep pinned, so that other
// readers are served.

#include "rdma/tcp/tcp_protocol.hpp"
#include "tests/rdma/connect_from.hpp"
#include "tests/rdma/plane_rig.hpp"
#include "tests/rdma/raw_peer.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>

namespace peercache::rdma::tcp_fair_share_test {
namespace {

constexpr incarnation life{1, 1};
constexpr std::uint32_t large = 32u << 20;
constexpr std::uint32_t small = 64u << 10;

class tcp_fair_share : public testing::Test {
protected:
  using reader = std::unique_ptr<raw_peer>;

  void serve(std::uint64_t pinned_bytes_max) {
    tcp_page_server_options opts;
    opts.inc = life;
    opts.cluster = "test";
    opts.pinned_bytes_max = pinned_bytes_max;
    auto made = tcp_page_server::listen(opts, pool);
    ASSERT_TRUE(made);
    server = std::move(*made);
  }

  /// Connects a reader from the loopback address `address`, and asks for the page in the slot.
  reader ask(const char* address, std::uint32_t slot) {
    auto made = std::make_unique<raw_peer>(connect_from(address, server->port()));
    hello say;
    say.cluster = cluster_digest("test");
    say.inc = life;
    made->say(say);
    made->say(request_header{request_magic, 1, 1});
    const auto& from = pool.slots[slot];
    const auto length_bytes = static_cast<std::uint32_t>(from.bytes.size());
    made->say(request_record{from.key, from.gen, {slot}, length_bytes, {}});
    return made;
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
  bool settles_at(std::uint64_t pinned_bytes) {
    return eventually([&] { return server->pinned_bytes() == pinned_bytes; });
  }
  /// Whether the reader gets all bytes of its page without time passing at the server.
  bool is_served(raw_peer& who, std::uint32_t bytes) {
    std::size_t got = 0;
    return eventually([&] { return (got += who.receive()) >= bytes; });
  }
  static bool ended(raw_peer& who) { return who.receive(), who.closed; }

  test_pool pool;
  std::unique_ptr<tcp_page_server> server;
  clock::time_point now = clock::now();
};

TEST_F(tcp_fair_share, ten_slow_readers_do_not_keep_others_waiting) {
  serve(8 * std::uint64_t{large});
  const auto slot = pool.put(large);
  const auto other_slot = pool.put(small);
  std::vector<reader> slow;
  for (int i = 0; i < 10; ++i)
    slow.push_back(ask(i < 5 ? "127.0.0.2" : "127.0.0.3", slot));
  ASSERT_TRUE(settles_at(6 * std::uint64_t{large})) << server->pinned_bytes();
  for (const auto* address : {"127.0.0.2", "127.0.0.4"}) {
    const auto good = ask(address, other_slot);
    EXPECT_TRUE(is_served(*good, small)) << address;
  }
}

TEST_F(tcp_fair_share, a_slow_reader_gives_way_to_who_waits_the_greediest_first) {
  serve(4 * std::uint64_t{large});
  const auto slot = pool.put(large);
  const auto modest = ask("127.0.0.2", slot);
  ASSERT_TRUE(settles_at(large));
  const auto greedy = ask("127.0.0.3", slot);
  ASSERT_TRUE(settles_at(2 * large));
  const auto again = ask("127.0.0.3", slot);
  ASSERT_TRUE(settles_at(3 * std::uint64_t{large}));
  const auto waiting = ask("127.0.0.4", slot);
  ASSERT_TRUE(eventually([&] { return server->connections() == 4; }));
  now += std::chrono::milliseconds(600);
  EXPECT_TRUE(is_served(*waiting, large));
  EXPECT_TRUE(eventually([&] { return ended(*greedy) || ended(*again); }));
  EXPECT_FALSE(ended(*modest));
  EXPECT_FALSE(greedy->closed && again->closed) << "one was enough";
}

TEST_F(tcp_fair_share, a_slow_reader_may_take_longer_while_nobody_waits) {
  serve(4 * std::uint64_t{large});
  const auto slot = pool.put(large);
  const auto one = ask("127.0.0.2", slot);
  const auto other = ask("127.0.0.3", slot);
  ASSERT_TRUE(settles_at(2 * large));
  now += std::chrono::milliseconds(1500);
  for (int i = 0; i < 100; ++i)
    server->poll(now);
  EXPECT_EQ(server->connections(), 2u);
}

TEST_F(tcp_fair_share, a_reader_below_the_slowest_rate_ends_and_one_above_it_does_not) {
  serve(4 * std::uint64_t{large});
  const auto slot = pool.put(large);
  const auto fast = ask("127.0.0.2", slot);
  const auto slow = ask("127.0.0.3", slot);
  ASSERT_TRUE(settles_at(2 * large));
  // Reads these bytes from the connection, first those that the kernel has buffered: the server
  // counts bytes as taken when its socket accepts them.
  const auto take = [](raw_peer& from, std::size_t bytes) {
    std::vector<char> some(bytes);
    for (std::size_t done = 0; done < bytes;) {
      const auto got = ::recv(from.fd.get(), some.data(), bytes - done, MSG_DONTWAIT);
      if (got <= 0)
        return from.closed |= got == 0 || errno != EAGAIN, void();
      done += static_cast<std::size_t>(got);
    }
  };
  for (int i = 0; i < 60 && server->connections() == 2; ++i) {
    now += std::chrono::milliseconds(250);
    take(*slow, 16u << 10);
    const auto target = server->stats().bytes_sent + (1u << 20);
    eventually([&] {
      take(*fast, 64u << 10);
      return server->stats().bytes_sent >= target || server->connections() != 2;
    });
  }
  EXPECT_EQ(server->connections(), 1u);
  EXPECT_FALSE(fast->closed);
  EXPECT_TRUE(eventually([&] { return ended(*slow); }));
}

} // namespace
} // namespace peercache::rdma::tcp_fair_share_test
