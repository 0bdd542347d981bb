#include "metrics/http_server.hpp"
#include "net/socket.hpp"
#include "tests/net/tls_stranger.hpp"
#include "tests/support/certificates.hpp"

#include "common/log.hpp"

#include <atomic>
#include <csignal>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <spdlog/sinks/ostream_sink.h>
#include <sstream>
#include <sys/socket.h>
#include <thread>

namespace peercache::metrics::http_tls_test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;
using clock = std::chrono::steady_clock;

/// Returns a connected socket, whose calls block for five seconds at most.
net::unique_fd connected(std::uint16_t port) {
  auto socket = std::move(*net::start_connect("127.0.0.1", port, {}));
  pollfd waiting{socket.get(), POLLOUT, 0};
  EXPECT_EQ(::poll(&waiting, 1, 5000), 1);
  ::fcntl(socket.get(), F_SETFL, ::fcntl(socket.get(), F_GETFL) & ~O_NONBLOCK);
  const timeval patience{5, 0};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  return socket;
}

class http_tls_test : public testing::Test {
protected:
  http_tls_test() {
    std::signal(SIGPIPE, SIG_IGN); // OpenSSL's own sockets raise SIGPIPE.
    spdlog::set_default_logger(std::make_shared<spdlog::logger>(
        "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(lines_)));
    serve({.tls = context_of(node)});
  }
  ~http_tls_test() override {
    stop();
    spdlog::set_default_logger(before_);
  }

  void serve(const http_options& options) {
    auto made = http_server::listen(options, {[this] { return metrics; },
                                              [] {
                                                return readiness{false, "joining"};
                                              },
                                              [] { return std::string("{}"); },
                                              [](const std::string&, const http_parameters&) {
                                                return api_answer{200, "{}"};
                                              },
                                              [this](bool, std::string, const http_reply& reply) {
                                                ++queries;
                                                reply({200, "{}"});
                                              }});
    ASSERT_TRUE(made) << to_string(made.error());
    server_ = std::move(*made);
    thread_ = std::thread([this] { server_->run(); });
  }
  void stop() {
    server_->stop();
    thread_.join();
  }

  /// Returns the server's answer to a client with this certificate (null: none).
  std::string get(const std::string& path, const net::tls_files* shown,
                  std::string* number = nullptr, const std::string& headers = "") {
    return ask("GET " + path + " HTTP/1.1\r\nHost: localhost\r\n" + headers + "\r\n", shown,
               number);
  }
  std::string ask(const std::string& request, const net::tls_files* shown,
                  std::string* number = nullptr) {
    const auto socket = connected(server_->port());
    net::tls_stranger who(socket.get(), shown);
    who.shake_hands();
    if (number != nullptr)
      *number = who.number_shown();
    who.say(request.data(), static_cast<int>(request.size()));
    return who.hears_all();
  }
  std::uint16_t port() const { return server_->port(); }
  /// Returns what was logged. @pre the server is stopped, or refuses nobody at this moment
  std::string lines() const {
    spdlog::default_logger()->flush(); // Takes the lock under which the lines were written.
    return lines_.str();
  }

  const certificates ca;
  net::tls_files node = ca.node();
  std::string metrics = "peercache_up 1\n";
  std::atomic<int> queries = 0;

private:
  std::ostringstream lines_;
  const std::shared_ptr<spdlog::logger> before_ = spdlog::default_logger();
  std::unique_ptr<http_server> server_;
  std::thread thread_;
};

TEST_F(http_tls_test, a_member_reads_everything_and_a_long_answer_comes_whole) {
  const auto prometheus = ca.client("prometheus");
  EXPECT_THAT(get("/metrics", &prometheus), HasSubstr("peercache_up 1\n"));
  EXPECT_THAT(get("/status.json", &prometheus), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(get("/", &prometheus), StartsWith("HTTP/1.1 406 ")) << "sent only as gzip";
  EXPECT_THAT(get("/api/cluster", &prometheus), StartsWith("HTTP/1.1 200 "));
  stop();
  metrics.assign(4u << 20, 'm');
  serve({.tls = context_of(node)});
  EXPECT_TRUE(get("/metrics", &prometheus).ends_with("\r\n\r\n" + metrics));
}

TEST_F(http_tls_test, who_shows_no_certificate_sees_the_health_checks_alone) {
  EXPECT_THAT(get("/healthz", nullptr), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(get("/readyz", nullptr), StartsWith("HTTP/1.1 503 "));
  for (const std::string path : {"/metrics", "/status.json", "/", "/api/cluster", "/nowhere"}) {
    const auto answer = get(path, nullptr);
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 403 ")) << path;
    EXPECT_THAT(answer, testing::Not(HasSubstr("peercache_up"))) << path;
  }
  stop();
  const auto said = lines();
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  serve({.tls = context_of(node), .open_to_strangers = true});
  EXPECT_THAT(get("/metrics", nullptr), HasSubstr("peercache_up 1\n"));
}

TEST_F(http_tls_test, nobody_waits_for_a_strangers_body) {
  const std::string head = "POST /query HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n";
  EXPECT_THAT(ask(head, nullptr), StartsWith("HTTP/1.1 403 "));
}

TEST_F(http_tls_test, a_query_takes_a_certificate) {
  const std::string query = "POST /query HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}";
  EXPECT_THAT(ask(query, nullptr), StartsWith("HTTP/1.1 403 "));
  EXPECT_EQ(queries, 0);
  const auto router = ca.client("router");
  EXPECT_THAT(ask(query, &router), StartsWith("HTTP/1.1 200 "));
  EXPECT_EQ(queries, 1);
}

TEST_F(http_tls_test, a_refusal_is_not_repeated_by_as_many_ranges_as_are_asked_for) {
  std::string ranges = "Range: bytes=0-";
  for (int i = 0; i < 100; ++i)
    ranges += ",0-";
  const auto answer = get("/metrics", nullptr, nullptr, ranges + "\r\n");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 403 "));
  EXPECT_THAT(answer, testing::EndsWith("\r\n\r\nthis takes a certificate of the cluster\n"));
  EXPECT_THAT(answer, testing::Not(HasSubstr("Content-Range")));
}

TEST_F(http_tls_test, a_certificate_that_is_no_members_is_refused_and_hears_nothing) {
  const certificates other_ca, elsewhere("elsewhere");
  const auto of_other_ca = other_ca.client();
  EXPECT_EQ(get("/healthz", &of_other_ca), "") << "of another CA";
  const auto expired = ca.issue(net::tls_role::client, "late", std::chrono::seconds(-60));
  EXPECT_EQ(get("/healthz", &expired), "") << "expired";
  stop();
  EXPECT_THAT(lines(), HasSubstr("HTTP: refused 127.0.0.1"));
  auto believing = node;
  believing.authority = ca.folder() + "/both.crt";
  std::ofstream(believing.authority) << std::ifstream(node.authority).rdbuf()
                                     << std::ifstream(elsewhere.authority().certificate()).rdbuf();
  serve({.tls = context_of(believing)});
  const auto of_other_cluster = elsewhere.client();
  EXPECT_EQ(get("/healthz", &of_other_cluster), "") << "of another cluster";
}

TEST_F(http_tls_test, a_plain_request_is_refused_and_hears_nothing) {
  const auto socket = connected(port());
  const std::string request = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
  ASSERT_EQ(::send(socket.get(), request.data(), request.size(), MSG_NOSIGNAL),
            ssize_t(request.size()));
  constexpr std::size_t alert_bytes_max = 16; // Enough for a TLS alert, and no more.
  std::size_t bytes = 0;
  char piece[256];
  for (ssize_t got; (got = ::recv(socket.get(), piece, sizeof piece, 0)) > 0;)
    bytes += static_cast<std::size_t>(got);
  EXPECT_LT(bytes, alert_bytes_max);
}

TEST_F(http_tls_test, who_says_nothing_is_dropped_in_time_and_holds_up_no_probe) {
  stop();
  serve({.tls = context_of(node), .read_timeout = std::chrono::milliseconds(500)});
  std::vector<net::unique_fd> silent;
  for (int i = 0; i < 20; ++i)
    silent.push_back(connected(port()));
  // The beginning of a TLS record, whose rest never comes.
  ASSERT_EQ(::send(silent.back().get(), "\x16\x03\x01\x02\x00\x01", 6, MSG_NOSIGNAL), 6);
  EXPECT_THAT(get("/healthz", nullptr), StartsWith("HTTP/1.1 200 "));
  for (const auto& each : silent) {
    char byte = 0;
    const auto got = ::recv(each.get(), &byte, 1, 0);
    EXPECT_TRUE(got == 0 || (got < 0 && errno == ECONNRESET)) << got << errno;
  }
}

TEST_F(http_tls_test, a_certificate_that_was_replaced_is_shown_to_the_next_who_comes) {
  std::string before, now;
  EXPECT_THAT(get("/healthz", nullptr, &before), StartsWith("HTTP/1.1 200 "));
  ASSERT_NE(before, "");
  ca.node(); // Replaces the node's certificate by another one.
  const auto until = clock::now() + std::chrono::seconds(20);
  do
    EXPECT_THAT(get("/healthz", nullptr, &now), StartsWith("HTTP/1.1 200 "));
  while (now == before && clock::now() < until);
  EXPECT_NE(now, before);
  EXPECT_NE(now, "");
}

} // namespace
} // namespace peercache::metrics::http_tls_test
