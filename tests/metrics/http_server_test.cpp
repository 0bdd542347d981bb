#include "metrics/http_server.hpp"

#include "common/published.hpp"
#include "metrics/dashboard_assets.hpp"
#include "metrics/registry.hpp"

#include <arpa/inet.h>
#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

namespace peercache::metrics {
namespace {

/// A client with a plain socket, so that tests see exactly the bytes that the server sends.
class raw_connection {
public:
  explicit raw_connection(std::uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  ~raw_connection() { ::close(fd_); }
  raw_connection(const raw_connection&) = delete;
  raw_connection& operator=(const raw_connection&) = delete;

  bool connected() const { return connected_; }
  void send(const std::string& bytes) { ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL); }

  std::string receive_all() {
    std::string got;
    char buffer[4096];
    for (ssize_t n; (n = ::recv(fd_, buffer, sizeof buffer, 0)) > 0;)
      got.append(buffer, static_cast<std::size_t>(n));
    return got;
  }

private:
  int fd_;
  bool connected_ = false;
};

class http_server_test : public ::testing::Test {
protected:
  void SetUp() override { serve({}); }
  void TearDown() override { stop(); }

  void serve(const http_options& options) {
    auto made = http_server::listen(options, content());
    ASSERT_TRUE(made) << to_string(made.error());
    server_ = *std::move(made);
    thread_ = std::thread{[this] { server_->run(); }};
  }

  void stop() {
    server_->stop();
    thread_.join();
  }

  http_content content() {
    return {[this] { return *metrics_.load(); }, [this] { return *readiness_.load(); },
            [] { return std::string{R"({"node":"n1"})"}; },
            [](const std::string& name, const http_parameters& query) {
              const auto wanted = query.find("node");
              if (name != "cluster")
                return api_answer{202, "{}"};
              return api_answer{200, wanted == query.end() ? "all" : wanted->second};
            }};
  }

  std::string exchange(const std::string& request) {
    raw_connection connection{server_->port()};
    connection.send(request);
    return connection.receive_all();
  }

  std::string get(const std::string& path) {
    return exchange("GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
  }

  std::string get_compressed(const std::string& path) {
    return exchange("GET " + path +
                    " HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: gzip, br\r\n\r\n");
  }

  /// Serves again, and has the numbers renewed by `renew`.
  void renew_by(std::function<void(std::function<void()>)> renew,
                std::chrono::milliseconds patience) {
    stop();
    auto with = content();
    with.renew = std::move(renew);
    http_options options;
    options.renewal_timeout = patience;
    options.query_timeout = std::chrono::minutes(5);
    auto made = http_server::listen(options, std::move(with));
    ASSERT_TRUE(made) << to_string(made.error());
    server_ = *std::move(made);
    thread_ = std::thread{[this] { server_->run(); }};
  }

  published<std::string> metrics_{registry{}.text()};
  published<readiness> readiness_{readiness{false, "joining"}};
  std::unique_ptr<http_server> server_;
  std::thread thread_;
};

std::string body_of(const std::string& answer) {
  const auto end = answer.find("\r\n\r\n");
  return end == std::string::npos ? "" : answer.substr(end + 4);
}

TEST_F(http_server_test, a_scrape_is_the_published_text) {
  const std::string answer = get("/metrics");
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 ")) << answer;
  EXPECT_NE(answer.find("Content-Type: text/plain; version=0.0.4"), std::string::npos);
  EXPECT_EQ(body_of(answer), *metrics_.load());
  metrics_.store("newer\n");
  EXPECT_EQ(body_of(get("/metrics")), "newer\n");
}

TEST_F(http_server_test, a_scrape_waits_until_the_numbers_are_new) {
  std::promise<std::function<void()>> asked;
  renew_by([&](std::function<void()> done) { asked.set_value(std::move(done)); },
           std::chrono::minutes(1));
  auto scrape = std::async(std::launch::async, [this] { return get("/metrics"); });
  const auto done = asked.get_future().get();
  EXPECT_TRUE(get("/healthz").starts_with("HTTP/1.1 200 ")) << "other clients wait for nothing";
  metrics_.store("newer\n");
  done();
  const auto told = scrape.get();
  EXPECT_TRUE(told.starts_with("HTTP/1.1 200 ")) << told;
  EXPECT_EQ(body_of(told), "newer\n");
}

TEST_F(http_server_test, a_scrape_is_told_old_numbers_when_no_new_ones_come) {
  std::vector<std::function<void()>> asked;
  renew_by([&](std::function<void()> done) { asked.push_back(std::move(done)); },
           std::chrono::milliseconds(50));
  auto scrape = std::async(std::launch::async, [this] { return get("/metrics"); });
  EXPECT_EQ(scrape.wait_for(std::chrono::seconds(30)), std::future_status::ready);
  EXPECT_EQ(body_of(scrape.get()), *metrics_.load());
  EXPECT_EQ(body_of(get("/status.json")), R"({"node":"n1"})");
  ASSERT_EQ(asked.size(), 2u);
  for (const auto& done : asked)
    done();
  EXPECT_TRUE(get("/healthz").starts_with("HTTP/1.1 200 ")) << "late news change nothing";
}

TEST_F(http_server_test, numbers_may_be_new_at_once) {
  renew_by(
      [this](const std::function<void()>& done) {
        metrics_.store("newest\n");
        done();
      },
      std::chrono::minutes(1));
  EXPECT_EQ(body_of(get("/metrics")), "newest\n");
  const auto head = exchange("HEAD /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_TRUE(head.starts_with("HTTP/1.1 200 ")) << head;
  EXPECT_EQ(body_of(head), "");
}

TEST_F(http_server_test, alive_is_not_ready) {
  EXPECT_TRUE(get("/healthz").starts_with("HTTP/1.1 200 "));
  const std::string waiting = get("/readyz");
  EXPECT_TRUE(waiting.starts_with("HTTP/1.1 503 ")) << waiting;
  EXPECT_EQ(body_of(waiting), "not ready: joining\n");
  readiness_.store(readiness{true, ""});
  EXPECT_TRUE(get("/readyz").starts_with("HTTP/1.1 200 "));
}

TEST_F(http_server_test, the_page_runs_nothing_but_files_of_this_server) {
  const std::string page = get_compressed("/");
  EXPECT_NE(page.find("Content-Security-Policy: default-src 'none'; script-src 'self'"),
            std::string::npos);
  EXPECT_EQ(page.find("unsafe"), std::string::npos);
  EXPECT_EQ(body_of(get("/status.json")), R"({"node":"n1"})");
}

TEST_F(http_server_test, each_file_of_the_page_is_sent_as_it_is_stored) {
  ASSERT_GE(dashboard_assets().size(), 7u);
  for (const auto& asset : dashboard_assets()) {
    const auto answer = get_compressed(std::string(asset.path));
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 ")) << asset.path;
    EXPECT_NE(answer.find("Content-Encoding: gzip"), std::string::npos) << asset.path;
    EXPECT_NE(answer.find("Content-Type: " + std::string(asset.type)), std::string::npos);
    EXPECT_EQ(body_of(answer), asset.gzipped) << asset.path;
  }
  const auto plain = get("/dashboard.js");
  EXPECT_TRUE(plain.starts_with("HTTP/1.1 406 ")) << plain;
}

TEST_F(http_server_test, a_question_of_the_api_is_answered_by_its_name_and_query) {
  const auto all = get("/api/cluster");
  EXPECT_TRUE(all.starts_with("HTTP/1.1 200 ")) << all;
  EXPECT_NE(all.find("Content-Type: application/json"), std::string::npos);
  EXPECT_EQ(body_of(all), "all");
  EXPECT_EQ(body_of(get("/api/cluster?node=a%20b")), "a b");
  const auto early = get("/api/history");
  EXPECT_TRUE(early.starts_with("HTTP/1.1 202 ")) << early;
  EXPECT_NE(early.find("Retry-After: 1"), std::string::npos);
}

TEST_F(http_server_test, without_a_dashboard_there_is_neither_page_nor_api) {
  auto bare = content();
  bare.api = {};
  stop();
  auto made = http_server::listen({}, std::move(bare));
  ASSERT_TRUE(made);
  server_ = *std::move(made);
  thread_ = std::thread{[this] { server_->run(); }};
  for (const std::string path : {"/", "/dashboard.css", "/dashboard.js", "/api/cluster"})
    EXPECT_TRUE(get(path).starts_with("HTTP/1.1 404 ")) << path;
  EXPECT_TRUE(get("/healthz").starts_with("HTTP/1.1 200 "));
  EXPECT_TRUE(get("/status.json").starts_with("HTTP/1.1 200 "));
}

TEST_F(http_server_test, an_unknown_path_and_a_write_are_refused) {
  EXPECT_TRUE(get("/nowhere").starts_with("HTTP/1.1 404 "));
  EXPECT_TRUE(get("/../etc/passwd").starts_with("HTTP/1.1 404 "));
  EXPECT_TRUE(exchange("DELETE /metrics HTTP/1.1\r\nHost: x\r\n\r\n").starts_with("HTTP/1.1 405 "));
  EXPECT_TRUE(exchange("POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 1048576\r\n\r\n")
                  .starts_with("HTTP/1.1 405 "));
}

TEST_F(http_server_test, garbage_costs_only_its_own_connection) {
  exchange(std::string(200'000, 'x'));
  exchange(std::string("\0\1\2\r\n\r\n", 7));
  EXPECT_TRUE(get("/healthz").starts_with("HTTP/1.1 200 "));
}

/// Tests with many connections that stay open and send nothing, a part of a request, or a byte now
/// and then.
class http_silence : public http_server_test, public ::testing::WithParamInterface<std::size_t> {
protected:
  using connections = std::vector<std::unique_ptr<raw_connection>>;

  connections open(const std::string& begin) {
    connections all;
    for (std::size_t i = 0; i < GetParam(); ++i) {
      all.push_back(std::make_unique<raw_connection>(server_->port()));
      all.back()->send(begin);
    }
    return all;
  }

  /// Sends probes as a kubelet does, and expects each answer within a second: a kubelet kills a
  /// node that answers later.
  void expect_probes_answered() {
    for (const std::string path : {"/healthz", "/readyz", "/metrics"}) {
      const auto begin = std::chrono::steady_clock::now();
      EXPECT_TRUE(get(path).starts_with("HTTP/1.1 "));
      EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(1)) << path;
    }
  }
};

INSTANTIATE_TEST_SUITE_P(connections, http_silence, ::testing::Values(2, 8, 64, 300));

TEST_P(http_silence, of_others_holds_up_no_probe) {
  const auto mute = open("");
  expect_probes_answered();
}

TEST_P(http_silence, in_mid_request_holds_up_no_probe) {
  const auto half = open("GET /met");
  expect_probes_answered();
}

TEST_P(http_silence, of_who_drips_bytes_holds_up_no_probe) {
  const auto dripping = open("G");
  std::atomic<bool> done{false};
  std::thread drip{[&] {
    while (!done)
      for (const auto& each : dripping)
        each->send("x");
  }};
  expect_probes_answered();
  done = true;
  drip.join();
}

TEST_P(http_silence, of_who_takes_no_answer_holds_up_no_probe) {
  metrics_.store(std::string(4u << 20, 'm')); // The text is longer than the sockets' buffers take.
  const auto deaf = open("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
  metrics_.store("few\n");
  expect_probes_answered();
}

TEST_F(http_server_test, who_drips_is_dropped_by_the_read_timeout_all_the_same) {
  stop();
  serve({.read_timeout = std::chrono::milliseconds{200}});
  ASSERT_FALSE(HasFatalFailure());
  raw_connection dripping{server_->port()};
  std::atomic<bool> done{false};
  std::thread drip{[&] {
    while (!done)
      dripping.send("x");
  }};
  EXPECT_EQ(dripping.receive_all(), "") << "ended without an answer";
  done = true;
  drip.join();
}

TEST_F(http_server_test, more_connections_than_are_held_are_all_served) {
  std::vector<std::unique_ptr<raw_connection>> open;
  for (std::size_t i = 0; i < http_server::connections_max + 50; ++i) {
    open.push_back(std::make_unique<raw_connection>(server_->port()));
    open.back()->send("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
  }
  for (auto& connection : open)
    EXPECT_TRUE(connection->receive_all().starts_with("HTTP/1.1 200 "));
}

TEST_F(http_server_test, ranges_are_refused_and_never_multiply_an_answer) {
  std::string ranges = "Range: bytes=0-";
  while (ranges.size() < 8000)
    ranges += ",0-";
  for (const std::string& range :
       {ranges, std::string("Range: bytes=0-3"), std::string("Range: x")}) {
    const auto answer = exchange("GET /metrics HTTP/1.1\r\nHost: x\r\n" + range + "\r\n\r\n");
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 4")) << answer.substr(0, 100);
    EXPECT_LT(answer.size(), 1000u);
  }
}

TEST_F(http_server_test, a_request_of_more_header_lines_than_the_limit_is_refused) {
  const auto with = [this](std::size_t lines) {
    std::string request = "GET /healthz HTTP/1.1\r\n";
    for (std::size_t i = 0; i < lines; ++i)
      request += "a: b\r\n";
    return exchange(request + "\r\n");
  };
  EXPECT_TRUE(with(http_server::headers_max).starts_with("HTTP/1.1 200 "));
  EXPECT_TRUE(with(http_server::headers_max + 1).starts_with("HTTP/1.1 431 "));
}

TEST_F(http_server_test, a_refused_request_with_a_body_gets_its_answer) {
  const std::string body(64u << 10, 'b');
  EXPECT_TRUE(exchange("POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 65536\r\n\r\n" + body)
                  .starts_with("HTTP/1.1 405 "));
}

TEST_F(http_server_test, a_port_in_use_is_an_error_that_names_it) {
  http_options options;
  options.port = server_->port();
  const auto second = http_server::listen(options, content());
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, errc::io_failed);
  EXPECT_NE(second.error().message.find(std::to_string(options.port)), std::string::npos);
}

TEST_F(http_server_test, a_server_that_was_stopped_before_it_ran_returns_at_once) {
  auto other = http_server::listen({}, content());
  ASSERT_TRUE(other);
  const std::uint16_t port = (*other)->port();
  (*other)->stop();
  (*other)->run();
  (*other).reset();
  EXPECT_FALSE(raw_connection{port}.connected());
}

} // namespace
} // namespace peercache::metrics
