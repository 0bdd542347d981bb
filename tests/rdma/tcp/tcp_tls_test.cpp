// Tests of the data port under TLS: which peers are let in, what an eavesdropper can read, and what
// a call costs when a stranger serves.

#include "rdma/tcp/tcp_protocol.hpp"
#include "rdma/verbs/verbs_protocol.hpp"
#include "tests/net/tls_stranger.hpp"
#include "tests/rdma/plane_rig.hpp"
#include "tests/rdma/raw_peer.hpp"

#include <csignal>
#include <fstream>
#include <sys/mman.h>

namespace peercache::rdma::tcp_tls_test {
namespace {

constexpr incarnation life{1, 1};

tcp_data_plane_options under_tls(bool pages_in_tls = false) {
  tcp_data_plane_options options;
  options.tls = rig_certificates::get().client;
  options.pages_in_tls = pages_in_tls;
  return options;
}

/// Relays the connections of a reader to a server, and records all bytes.
class relay {
public:
  explicit relay(std::uint16_t server) : server_(server) {}

  std::uint16_t port() const { return net::local_port(listener_); }
  /// Returns the bytes of all connections and directions, in the order in which they came.
  const std::string& seen() const noexcept { return seen_; }

  void step() {
    if (auto accepted = net::accept_from(listener_, {}); accepted)
      pairs_.push_back(
          {std::move(accepted), std::move(*net::start_connect("127.0.0.1", server_, {})), {}, {}});
    for (auto& each : pairs_) {
      pass(each.reader, each.server, each.to_server);
      pass(each.server, each.reader, each.to_reader);
    }
  }

private:
  struct pair {
    net::unique_fd reader, server;
    std::string to_server, to_reader; ///< Bytes that were received and not yet passed on.
  };

  void pass(const net::unique_fd& from, const net::unique_fd& to, std::string& kept) {
    char bytes[65536];
    if (kept.empty())
      if (const auto got = ::recv(from.get(), bytes, sizeof bytes, MSG_DONTWAIT); got > 0) {
        kept.assign(bytes, static_cast<std::size_t>(got));
        seen_ += kept;
      }
    if (kept.empty())
      return;
    if (const auto sent = ::send(to.get(), kept.data(), kept.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        sent > 0)
      kept.erase(0, static_cast<std::size_t>(sent));
  }

  const std::uint16_t server_;
  net::unique_fd listener_ = std::move(*net::listen_on("127.0.0.1", 0, 16));
  std::vector<pair> pairs_;
  std::string seen_;
};

/// Whether an eavesdropper sees bytes of a page, or the page's key, while the page is read.
struct leak {
  bool page = false;
  bool key = false;
};

leak leak_of(bool reader_wants_all, bool server_wants_all) {
  test_pool pool;
  tcp_rig rig(under_tls(reader_wants_all));
  tcp_page_server_options serving;
  serving.inc = life;
  serving.pages_in_tls = server_wants_all;
  rig.serve(pool, serving);
  relay between(rig.server->port());
  test_batch what(pool, 3, 100'000);
  what.batch.peer = rig.peer(life);
  what.batch.peer.port = between.port();
  what.batch.deadline = rig.now + std::chrono::seconds(5);
  rig.plane().submit(what.batch);
  while (!what.batch.complete()) {
    rig.step();
    between.step();
  }
  EXPECT_TRUE(what.all(page_status::hit));
  EXPECT_TRUE(what.holds(pool, 2));
  const auto has = [&](const auto* bytes, std::size_t count) {
    return between.seen().find(std::string(reinterpret_cast<const char*>(bytes), count)) !=
           std::string::npos;
  };
  const auto& page = pool.slots[1];
  return {has(page.bytes.data() + 5000, 64), has(page.key.bytes.data(), page.key.bytes.size())};
}

TEST(tcp_tls, with_handshake_an_eavesdropper_has_pages_and_no_keys) {
  const auto found = leak_of(false, false);
  EXPECT_TRUE(found.page) << "else this test cannot find anything";
  EXPECT_FALSE(found.key);
}

TEST(tcp_tls, with_full_on_either_side_an_eavesdropper_has_nothing) {
  for (const auto& [reader, server] : {std::pair{true, true}, {true, false}, {false, true}}) {
    const auto found = leak_of(reader, server);
    EXPECT_FALSE(found.page) << reader << server;
    EXPECT_FALSE(found.key) << reader << server;
  }
}

TEST(tcp_tls, with_full_memory_that_cannot_be_written_costs_its_page_and_not_the_process) {
  test_pool pool;
  auto options = under_tls(true);
  options.channels.breaker.failures_to_open = 1;
  tcp_rig rig(options);
  rig.serve(pool, life);
  constexpr std::size_t bytes = 96u << 10;
  auto* const memory = static_cast<std::byte*>(
      ::mmap(nullptr, 2 * bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(static_cast<void*>(memory), MAP_FAILED);
  ASSERT_EQ(::mprotect(memory + bytes, bytes, PROT_READ), 0);
  // Destinations in memory that is partly read-only: all bytes of the page, or only its last bytes.
  for (auto* const to : {memory + bytes, memory + 4000}) {
    test_batch wrong(pool, 2, bytes);
    wrong.batch.parts[1].data = to;
    rig.read(wrong, life);
    EXPECT_EQ(to_string(wrong.batch.pages[1].status), "bad_size");
    test_batch right(pool, 2, bytes);
    rig.read(right, life);
    EXPECT_TRUE(right.all(page_status::hit));
  }
  EXPECT_EQ(rig.plane().stats().breaker_opened, 0u);
  ::munmap(memory, 2 * bytes);
}

TEST(tcp_tls, both_sides_do_the_larger_extent_and_tls_never_meets_its_absence) {
  using extent = tls_extent;
  EXPECT_EQ(agreed(extent::none, extent::none), extent::none);
  EXPECT_EQ(agreed(extent::handshake, extent::handshake), extent::handshake);
  EXPECT_EQ(agreed(extent::handshake, extent::full), extent::full);
  EXPECT_EQ(agreed(extent::full, extent::handshake), extent::full);
  EXPECT_EQ(agreed(extent::none, extent::handshake), std::nullopt);
  EXPECT_EQ(agreed(extent::full, extent::none), std::nullopt);
  EXPECT_EQ(agreed(static_cast<extent>(3), extent::full), std::nullopt);
}

/// A page server under TLS, and strangers.
class tcp_tls_strangers : public testing::Test {
protected:
  tcp_tls_strangers() {
    std::signal(SIGPIPE, SIG_IGN); // OpenSSL's own sockets raise SIGPIPE.
    rig.serve(pool, life);
    rig.server->poll(rig.now);
  }

  template <class F>
  bool eventually(F condition) {
    for (const auto until = clock::now() + std::chrono::seconds(10); clock::now() < until;) {
      if (condition())
        return true;
      rig.step();
    }
    return false;
  }
  /// Returns how many bytes come until the server hangs up; fails the test when it does not.
  std::size_t said_to(raw_peer& peer) {
    std::size_t bytes = 0;
    EXPECT_TRUE(eventually([&] { return bytes += peer.receive(), peer.closed; }));
    return bytes;
  }

  /// Whether the server answers, inside TLS, the hello of a peer with these certificate files
  /// (null: none).
  bool lets_in(const net::tls_files* shown) {
    raw_peer peer(rig.port);
    net::tls_stranger who(peer.fd.get(), shown);
    hello say;
    say.extent = tls_extent::handshake;
    say.cluster = cluster_digest("test");
    say.inc = life;
    bool said = false, heard = false;
    const auto until = clock::now() + std::chrono::seconds(4);
    while (clock::now() < until && !heard) {
      who.shake_hands();
      said = said || who.say(&say, sizeof say);
      heard = said && who.hears();
      rig.step();
      char next;
      const auto got = heard ? 1 : ::recv(peer.fd.get(), &next, 1, MSG_PEEK | MSG_DONTWAIT);
      if (got == 0 || (got < 0 && errno != EAGAIN))
        break;
    }
    EXPECT_LT(clock::now(), until) << "neither let in nor refused";
    return heard;
  }

  const certificates& ca = rig_certificates::get().ca;
  test_pool pool;
  tcp_rig rig{under_tls()};
};

constexpr std::size_t alert_bytes_max = 16; ///< Enough for a TLS alert, and nothing else.

TEST_F(tcp_tls_strangers, a_plain_hello_of_either_protocol_is_refused_and_hears_nothing) {
  hello plain;
  plain.cluster = cluster_digest("test");
  plain.inc = life;
  verbs_hello by_verbs;
  by_verbs.cluster = plain.cluster;
  by_verbs.inc = life;
  raw_peer first(rig.port), second(rig.port);
  first.say(plain);
  second.say(by_verbs);
  EXPECT_LT(said_to(first), alert_bytes_max);
  EXPECT_LT(said_to(second), alert_bytes_max);
  EXPECT_EQ(rig.server->stats().accepted, 0u) << "the server never heard of them";
}

TEST_F(tcp_tls_strangers, certificates_decide_who_is_let_in) {
  const auto own = ca.client("engine-2");
  EXPECT_TRUE(lets_in(&own)) << "else nobody would be";
  const auto accepted = rig.server->stats().accepted;
  EXPECT_FALSE(lets_in(nullptr)) << "no certificate";
  const certificates other_ca("test");
  const auto of_other_ca = other_ca.client();
  EXPECT_FALSE(lets_in(&of_other_ca)) << "of another CA";
  const auto expired = ca.issue(net::tls_role::client, "late", std::chrono::seconds(-60));
  EXPECT_FALSE(lets_in(&expired)) << "expired";
  EXPECT_EQ(rig.server->stats().accepted, accepted) << "the server never heard of them";
}

TEST_F(tcp_tls_strangers, a_certificate_of_another_cluster_is_refused_although_its_ca_is_believed) {
  const certificates elsewhere("elsewhere");
  auto files = ca.node("node-2");
  const auto both = ca.folder() + "/both.crt";
  std::ofstream(both) << std::ifstream(files.authority).rdbuf()
                      << std::ifstream(elsewhere.authority().certificate()).rdbuf();
  files.authority = both;
  rig.handshakes = std::move(*net::tls_handshakes::create(context_of(files)));
  rig.serve(pool, life);
  const auto of_elsewhere = elsewhere.client();
  EXPECT_FALSE(lets_in(&of_elsewhere));
  const auto own = ca.client("engine-3");
  EXPECT_TRUE(lets_in(&own)) << "else nobody would be";
}

TEST_F(tcp_tls_strangers, who_says_nothing_is_dropped) {
  raw_peer silent(rig.port);
  EXPECT_EQ(said_to(silent), 0u);
}

/// A reader under TLS whose server is not a node of its cluster.
struct misled_reader {
  test_pool pool;
  tcp_rig rig{under_tls()};

  /// Reads pages from a server with the TLS context `who` (null: a server without TLS), and expects
  /// the status `unreachable`.
  void expect_unreachable(std::shared_ptr<net::tls_context> who) {
    rig.handshakes = who ? std::move(*net::tls_handshakes::create(std::move(who))) : nullptr;
    rig.serve(pool, life);
    test_batch what(pool, 2, 1000);
    const auto before = what.memory;
    rig.read(what, life);
    EXPECT_TRUE(what.all(page_status::unreachable));
    EXPECT_EQ(what.memory, before);
    EXPECT_EQ(rig.server->connections(), 0u);
    rig.server.reset();
  }
};

TEST(tcp_tls, a_reader_says_nothing_to_a_server_that_is_no_node_of_its_cluster) {
  const certificates other_ca("test");
  misled_reader().expect_unreachable(context_of(other_ca.node()));
  misled_reader().expect_unreachable(rig_certificates::get().client);
}

TEST(tcp_tls, a_reader_says_nothing_to_a_plain_server) {
  // A server without TLS expects a hello, and refuses the first bytes of a TLS handshake.
  misled_reader().expect_unreachable(nullptr);
}

TEST(tcp_tls, a_plain_reader_is_unreachable_for_a_server_under_tls) {
  test_pool pool;
  tcp_rig rig;
  rig.handshakes = rig_certificates::handshakes();
  rig.serve(pool, life);
  test_batch what(pool, 2, 1000);
  rig.read(what, life);
  EXPECT_TRUE(what.all(page_status::unreachable));
  EXPECT_EQ(rig.server->stats().accepted, 0u);
}

TEST(tcp_tls, a_handshake_that_nobody_answers_costs_the_deadline_and_blocks_nothing) {
  test_pool pool;
  pool.put(1000);
  auto mute = std::move(*net::listen_on("127.0.0.1", 0, 16));
  tcp_rig rig(under_tls());
  rig.serve(pool, life);
  test_batch waiting(pool, 1, 1000), served(pool, 1, 1000);
  waiting.batch.peer = rig.peer(life);
  waiting.batch.peer.port = net::local_port(mute);
  waiting.batch.deadline = rig.now + std::chrono::milliseconds(100);
  rig.plane().submit(waiting.batch);
  rig.read(served, life);
  EXPECT_TRUE(served.all(page_status::hit)) << "while the other handshake goes on";
  EXPECT_FALSE(waiting.batch.complete());
  rig.finish(waiting);
  EXPECT_TRUE(waiting.all(page_status::timed_out));
}

} // namespace
} // namespace peercache::rdma::tcp_tls_test
