// Tests of the TCP data plane with a server that breaks the protocol, dies or freezes.

#include "rdma/tcp/tcp_protocol.hpp"
#include "tests/rdma/plane_rig.hpp"

#include <sys/socket.h>

namespace peercache::rdma::tcp_answers_test {
namespace {

constexpr incarnation life{1, 1};

/// A server that sends given bytes, whatever the reader asks.
class scripted_server {
public:
  /// What the server does after its last byte. When it `dies`, it leaves bytes of the reader
  /// unread, so the kernel resets the connection.
  enum class ending : std::uint8_t { closes, dies, freezes };

  explicit scripted_server(ending end = ending::closes)
      : end_(end), listener_(std::move(*net::listen_on("127.0.0.1", 0, 16))) {}

  std::uint16_t port() const { return net::local_port(listener_); }

  void step(std::span<const std::byte> answer) {
    if (auto fd = net::accept_from(listener_, {})) {
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
    if (sent_ == answer.size() && end_ != ending::freezes)
      close();
  }

private:
  void close() {
    const linger at_once{1, 0};
    if (peer_ && end_ == ending::dies)
      ::setsockopt(peer_.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    peer_.reset();
  }

  const ending end_;
  net::unique_fd listener_;
  net::unique_fd peer_;
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
  bytes.resize(sizeof hi + answer_head_bytes(pool.slots.size()));
  for (const auto& slot : pool.slots)
    bytes.insert(bytes.end(), slot.bytes.begin(), slot.bytes.end());
  return bytes;
}

/// Reads all pages of `pool` from a server that sends `answer`. Pages that do not arrive `within`
/// this time are misses.
void read_scripted(const test_pool& pool, std::span<const std::byte> answer, test_batch& what,
                   clock::duration within,
                   scripted_server::ending end = scripted_server::ending::closes) {
  tcp_rig rig;
  scripted_server server(end);
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

TEST(tcp_answers, mutated_answers_never_make_a_wrong_hit_nor_write_outside_the_parts) {
  test_pool pool;
  for (const std::size_t length_bytes : {1000, 7, 300})
    pool.put(length_bytes);
  const auto right = right_answer(pool);
  {
    test_batch what;
    read_scripted(pool, right, what,
                  std::chrono::seconds(60)); // More time than the steps need.
    ASSERT_TRUE(what.all(page_status::hit));
  }
  constexpr std::uint32_t seed = 20261121;
  std::mt19937 random(seed);
  for (int round = 0; round < 300; ++round) {
    auto answer = right;
    for (auto flips = 1 + random() % 3; flips > 0; --flips) {
      // Half of the damage goes to the heads of hello and answer, which are a small part of the
      // stream.
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

/// Asks for 64 pages, of which the server sends only 40 and a half before it ends.
void read_a_part(test_pool& pool, test_batch& what, scripted_server::ending end) {
  for (int i = 0; i < 64; ++i)
    pool.put(1000);
  auto answer = right_answer(pool);
  answer.resize(answer.size() - 23'500);
  read_scripted(pool, answer, what, std::chrono::milliseconds(20), end);
  for (std::size_t i = 0; i < 40; ++i) {
    ASSERT_EQ(what.batch.pages[i].status, page_status::hit) << i;
    ASSERT_TRUE(what.holds(pool, i)) << i;
  }
}

TEST(tcp_answers, pages_that_had_arrived_when_the_peer_died_are_hits) {
  test_pool pool;
  test_batch what;
  read_a_part(pool, what, scripted_server::ending::dies);
  for (std::size_t i = 40; i < 64; ++i)
    EXPECT_EQ(what.batch.pages[i].status, page_status::unreachable) << i;
}

TEST(tcp_answers, pages_that_had_arrived_when_the_peer_froze_are_hits) {
  test_pool pool;
  test_batch what;
  read_a_part(pool, what, scripted_server::ending::freezes);
  for (std::size_t i = 40; i < 64; ++i)
    EXPECT_EQ(what.batch.pages[i].status, page_status::timed_out) << i;
}

} // namespace
} // namespace peercache::rdma::tcp_answers_test
