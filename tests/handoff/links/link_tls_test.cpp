#include "tests/handoff/links/link_world.hpp"
#include "tests/net/tls_stranger.hpp"
#include "tests/support/certificates.hpp"

#include "common/log.hpp"

#include <csignal>
#include <poll.h>
#include <spdlog/sinks/ostream_sink.h>
#include <sstream>
#include <sys/socket.h>
#include <thread>

namespace peercache::handoff::testing::link_tls_test {
namespace {

using ::testing::HasSubstr;
using clock = std::chrono::steady_clock;

/// A thread that carries out the TLS handshakes of one worker.
struct door {
  explicit door(std::shared_ptr<net::tls_context> shown)
      : context(std::move(shown)), work(std::move(*net::tls_handshakes::create(context))),
        thread([this] { work->run(); }) {}
  ~door() {
    work->stop();
    thread.join();
  }

  std::shared_ptr<net::tls_context> context;
  std::unique_ptr<net::tls_handshakes> work;
  std::thread thread;
};

class link_tls_test : public link_world {
protected:
  link_tls_test() {
    std::signal(SIGPIPE, SIG_IGN); // OpenSSL's own sockets raise SIGPIPE.
    spdlog::set_default_logger(std::make_shared<spdlog::logger>(
        "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(lines)));
  }
  ~link_tls_test() override {
    workers.clear(); // Workers end before the doors, which they use.
    doors.clear();
    spdlog::set_default_logger(before);
  }

  /// Starts a worker that shows this certificate to peers that it dials and to peers that dial it.
  test_worker& start_with(engine_side side, std::uint64_t process, const net::tls_files& files) {
    auto& made = doors.emplace_back(context_of(files)->among_engines());
    link_options opts;
    opts.tls = made.context;
    opts.handshakes = made.work.get();
    return start(side, process, std::move(opts));
  }

  /// Returns these files with `other`'s CA added to the CA that the worker trusts.
  net::tls_files believing(const net::tls_files& files, const certificates& other) const {
    auto both = files;
    both.authority = ca.folder() + "/both.crt";
    std::ofstream(both.authority) << std::ifstream(files.authority).rdbuf()
                                  << std::ifstream(other.authority().certificate()).rdbuf();
    return both;
  }

  static net::unique_fd connect(const test_worker& to) {
    auto socket = std::move(*net::start_connect("127.0.0.1", to.links->port(), {}));
    pollfd waiting{socket.get(), POLLOUT, 0};
    EXPECT_EQ(::poll(&waiting, 1, 5000), 1);
    return socket;
  }
  /// Whether the worker answers, inside TLS, the hello of a stranger with this certificate (null:
  /// none). Fails the test when it neither answers nor refuses within the time of a handshake.
  bool lets_in(const test_worker& at, const net::tls_files* shown) {
    const auto socket = connect(at);
    net::tls_stranger who(socket.get(), shown);
    const auto say = raw_peer::framed(hello_of(engine_side::decode, 77));
    bool said = false, heard = false;
    const auto until = clock::now() + std::chrono::seconds(3);
    while (clock::now() < until && !heard) {
      who.shake_hands();
      said = said || who.say(say.data(), static_cast<int>(say.size()));
      heard = who.hears() && said; // The read also takes the alert of a refusal.
      run_once();
      char next;
      const auto got = heard ? 1 : ::recv(socket.get(), &next, 1, MSG_PEEK | MSG_DONTWAIT);
      if (got == 0 || (got < 0 && errno != EAGAIN))
        break;
    }
    EXPECT_LT(clock::now(), until) << "neither let in nor refused";
    return heard;
  }
  std::size_t refusals() const {
    const auto said = lines.str();
    std::size_t found = 0;
    for (auto at = said.find("refused a connection"); at != std::string::npos;
         at = said.find("refused a connection", at + 1))
      ++found;
    return found;
  }

  const certificates ca{"test"};
  std::ostringstream lines;
  const std::shared_ptr<spdlog::logger> before = spdlog::default_logger();
  std::deque<door> doors;
};

TEST_F(link_tls_test, engines_with_clients_certificates_meet_and_messages_keep_their_order) {
  auto& decode = start_with(engine_side::decode, 1, ca.client("decode"));
  auto& prefill = start_with(engine_side::prefill, 2, ca.client("prefill"));
  const auto [at_decode, at_prefill] = join(decode, prefill);
  constexpr std::uint64_t messages = 2'000;
  for (std::uint64_t i = 0; i < messages; ++i) {
    decode.links->send(at_decode, join_of(i), now);
    prefill.links->send(at_prefill, offer_of(i), now);
    run_once();
  }
  ASSERT_TRUE(run_until(
      [&] { return decode.seen.size() == messages + 1 && prefill.seen.size() == messages + 1; }));
  for (std::uint64_t i = 0; i < messages; ++i) {
    EXPECT_EQ(std::get<peer_said>(prefill.seen[i + 1]).what, message(join_of(i)));
    EXPECT_EQ(std::get<peer_said>(decode.seen[i + 1]).what, message(offer_of(i)));
  }
}

TEST_F(link_tls_test, the_longest_message_there_is_arrives) {
  auto& decode = start_with(engine_side::decode, 1, ca.client());
  auto& prefill = start_with(engine_side::prefill, 2, ca.client());
  const auto at_prefill = join(decode, prefill).second;
  auto offered = offer_of(1);
  offered.pages.pages.assign(limits::offer_pages_max, 1);
  offered.pages.states.resize(limits::state_components_max);
  for (auto& states : offered.pages.states)
    states.items.assign(limits::room_pages_max, 2);
  prefill.links->send(at_prefill, offered, now);
  ASSERT_TRUE(run_until([&] { return decode.seen.size() == 2; }));
  EXPECT_TRUE(std::get<peer_said>(decode.seen.back()).what == message(offered));
}

TEST_F(link_tls_test, a_worker_that_refuses_says_why_inside_tls) {
  auto& decode = start_with(engine_side::decode, 1, ca.client());
  auto& again = start_with(engine_side::decode, 2, ca.client());
  ASSERT_TRUE(decode.links->connect(again.address(), std::nullopt, now));
  ASSERT_TRUE(run_until([&] { return decode.lost() == 1; }));
  EXPECT_EQ(decode.loss().reason, loss_reason::refused);
  EXPECT_THAT(decode.loss().detail, HasSubstr("both workers are of decode"));
}

TEST_F(link_tls_test, certificates_decide_who_is_let_in_and_one_line_tells_of_the_others) {
  const certificates other_ca("test"), elsewhere("elsewhere");
  auto& prefill = start_with(engine_side::prefill, 1, believing(ca.client(), elsewhere));
  const auto own = ca.client("engine-2");
  EXPECT_TRUE(lets_in(prefill, &own)) << "else nobody would be";
  const auto accepted = prefill.links->stats().accepted;
  EXPECT_FALSE(lets_in(prefill, nullptr)) << "no certificate";
  const auto of_other_ca = other_ca.client();
  EXPECT_FALSE(lets_in(prefill, &of_other_ca)) << "of another CA";
  const auto expired = ca.issue(net::tls_role::client, "late", std::chrono::seconds(-60));
  EXPECT_FALSE(lets_in(prefill, &expired)) << "expired";
  const auto of_other_cluster = elsewhere.client();
  EXPECT_FALSE(lets_in(prefill, &of_other_cluster)) << "of another cluster";
  EXPECT_EQ(prefill.links->stats().accepted, accepted) << "the worker never heard of them";
  EXPECT_EQ(refusals(), 1u) << lines.str();
}

TEST_F(link_tls_test, a_plain_hello_is_refused_and_hears_nothing) {
  auto& prefill = start_with(engine_side::prefill, 1, ca.client());
  const auto socket = connect(prefill);
  const auto say = raw_peer::framed(hello_of(engine_side::decode, 2));
  ASSERT_EQ(::send(socket.get(), say.data(), say.size(), MSG_NOSIGNAL), ssize_t(say.size()));
  constexpr ssize_t alert_bytes_max = 16; // Enough for a TLS alert, and no more.
  ssize_t bytes = 0;
  ASSERT_TRUE(run_until([&] {
    char piece[256];
    const auto got = ::recv(socket.get(), piece, sizeof piece, MSG_DONTWAIT);
    bytes += std::max<ssize_t>(got, 0);
    return got == 0 || (got < 0 && errno != EAGAIN);
  }));
  EXPECT_LT(bytes, alert_bytes_max);
  EXPECT_EQ(prefill.links->stats().accepted, 0u);
}

TEST_F(link_tls_test, who_dials_a_worker_of_another_ca_or_without_tls_learns_that_it_is_refused) {
  const certificates other_ca("test");
  auto& prefill = start_with(engine_side::prefill, 1, ca.client());
  auto& plain_prefill = start(engine_side::prefill, 2);
  auto& stranger = start_with(engine_side::decode, 3, other_ca.client());
  auto& decode = start_with(engine_side::decode, 4, ca.client());
  auto& plain_decode = start(engine_side::decode, 5);
  ASSERT_TRUE(stranger.links->connect(prefill.address(), std::nullopt, now));
  ASSERT_TRUE(decode.links->connect(plain_prefill.address(), std::nullopt, now));
  ASSERT_TRUE(plain_decode.links->connect(prefill.address(), std::nullopt, now));
  ASSERT_TRUE(run_until(
      [&] { return stranger.lost() == 1 && decode.lost() == 1 && plain_decode.lost() == 1; }));
  EXPECT_EQ(stranger.loss().reason, loss_reason::refused);
  EXPECT_THAT(stranger.loss().detail, HasSubstr("certificate"));
  EXPECT_EQ(decode.loss().reason, loss_reason::refused);
  EXPECT_THAT(decode.loss().detail, HasSubstr("has no TLS"));
  EXPECT_NE(plain_decode.loss().reason, loss_reason::silent);
  EXPECT_EQ(prefill.joined() + plain_prefill.joined(), 0u);
}

TEST_F(link_tls_test, a_worker_that_ends_and_one_that_is_not_there_are_told_apart) {
  auto& decode = start_with(engine_side::decode, 1, ca.client());
  auto& prefill = start_with(engine_side::prefill, 2, ca.client());
  join(decode, prefill);
  const auto address = prefill.address();
  prefill.links.reset();
  prefill.frozen = true;
  ASSERT_TRUE(run_until([&] { return decode.lost() == 1; }));
  EXPECT_EQ(decode.loss().reason, loss_reason::closed);
  ASSERT_TRUE(decode.links->connect(address, std::nullopt, now));
  ASSERT_TRUE(run_until([&] { return decode.lost() == 2; }));
  EXPECT_EQ(decode.all<peer_lost>().back().reason, loss_reason::unreachable);
}

TEST_F(link_tls_test, a_worker_whose_connection_does_not_come_about_is_unreachable) {
  auto& decode = start_with(engine_side::decode, 1, ca.client());
  // The backlog of this listener is full, so the kernel answers no further connection.
  const auto listener = net::listen_on("127.0.0.1", 0, 0);
  ASSERT_TRUE(listener);
  const auto port = net::local_port(*listener);
  const auto filler = net::start_connect("127.0.0.1", port, {});
  const auto more = net::start_connect("127.0.0.1", port, {});
  ASSERT_TRUE(decode.links->connect({"127.0.0.1", port}, std::nullopt, now));
  pass(std::chrono::milliseconds(1999), std::chrono::milliseconds(1999));
  EXPECT_EQ(decode.lost(), 0u);
  pass(std::chrono::milliseconds(1), std::chrono::milliseconds(1));
  EXPECT_EQ(decode.loss().reason, loss_reason::unreachable);
}

TEST_F(link_tls_test, beyond_loopback_a_worker_needs_tls_or_a_word_that_the_network_is_trusted) {
  const auto plain = worker_links::listen({.host = "0.0.0.0"}, hello_of(engine_side::prefill, 1));
  ASSERT_FALSE(plain);
  EXPECT_THAT(plain.error().message, HasSubstr("tls.cert"));
  auto& under_tls = doors.emplace_back(context_of(ca.client())->among_engines());
  EXPECT_TRUE(worker_links::listen(
      {.host = "0.0.0.0", .tls = under_tls.context, .handshakes = under_tls.work.get()},
      hello_of(engine_side::prefill, 1)));
  EXPECT_TRUE(may_listen("0.0.0.0", false, true));
}

} // namespace
} // namespace peercache::handoff::testing::link_tls_test
