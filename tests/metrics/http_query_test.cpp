// Tests of routers' queries by HTTP: a POST with a body, which another thread than the server's
// answers.

#include "metrics/http_connection.hpp"
#include "metrics/http_server.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

namespace peercache::metrics {
namespace http_query_test {

struct arrived {
  bool by_hash = false;
  std::string body;
  http_reply reply;
};

/// Queries that the server has given out, for the test's thread to answer.
class query_box {
public:
  void put(arrived one) {
    const std::lock_guard guard(lock_);
    all_.push_back(std::move(one));
    changed_.notify_all();
  }
  arrived take() {
    std::unique_lock guard(lock_);
    EXPECT_TRUE(changed_.wait_for(guard, std::chrono::seconds(10), [&] { return !all_.empty(); }));
    auto one = std::move(all_.front());
    all_.pop_front();
    return one;
  }
  std::size_t size() {
    const std::lock_guard guard(lock_);
    return all_.size();
  }

private:
  std::mutex lock_;
  std::condition_variable changed_;
  std::deque<arrived> all_;
};

class client_socket {
public:
  explicit client_socket(std::uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    const timeval patience{20, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  }
  ~client_socket() { ::close(fd_); }
  client_socket(const client_socket&) = delete;
  client_socket& operator=(const client_socket&) = delete;

  client_socket& send(const std::string& bytes) {
    for (std::size_t sent = 0; sent < bytes.size();) {
      const auto done = ::send(fd_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (done <= 0)
        break;
      sent += static_cast<std::size_t>(done);
    }
    return *this;
  }
  /// Ends the sending direction of the connection.
  client_socket& finish() {
    ::shutdown(fd_, SHUT_WR);
    return *this;
  }
  /// Makes the connection end by a reset when it is closed.
  client_socket& reset_at_end() {
    const linger none{1, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &none, sizeof none);
    return *this;
  }
  std::string receive_all() {
    std::string got;
    char buffer[4096];
    for (ssize_t n; (n = ::recv(fd_, buffer, sizeof buffer, 0)) > 0;)
      got.append(buffer, static_cast<std::size_t>(n));
    return got;
  }

private:
  int fd_;
};

class http_query_test : public ::testing::Test {
protected:
  void SetUp() override {
    http_options options;
    options.query_timeout = query_timeout;
    http_content content{[] { return std::string{}; },
                         [] { return readiness{}; },
                         [] { return std::string{"{}"}; },
                         {}};
    content.query = [box = queries](bool by_hash, std::string body, http_reply reply) {
      box->put({by_hash, std::move(body), std::move(reply)});
    };
    auto made = http_server::listen(options, std::move(content));
    ASSERT_TRUE(made) << to_string(made.error());
    server = *std::move(made);
    thread = std::thread{[this] { server->run(); }};
  }
  void TearDown() override {
    server->stop();
    thread.join();
  }

  static std::string post(const std::string& path, const std::string& body,
                          const std::string& more = "") {
    return "POST " + path +
           " HTTP/1.1\r\nHost: a\r\ncontent-length: " + std::to_string(body.size()) + "\r\n" +
           more + "\r\n" + body;
  }
  std::string exchange(const std::string& request) {
    return client_socket(server->port()).send(request).receive_all();
  }

  std::chrono::milliseconds query_timeout{10'000};
  std::shared_ptr<query_box> queries = std::make_shared<query_box>();
  std::unique_ptr<http_server> server;
  std::thread thread;
};

TEST_F(http_query_test, is_answered_by_another_thread_while_others_are_served) {
  client_socket router(server->port());
  router.send(post("/query_by_hash", R"({"a": 1})"));
  auto query = queries->take();
  EXPECT_TRUE(query.by_hash);
  EXPECT_EQ(query.body, R"({"a": 1})");
  EXPECT_TRUE(exchange("GET /healthz HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200 "));
  query.reply({200, R"({"b": 2})"});
  const auto answer = router.receive_all();
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 OK\r\n")) << answer;
  EXPECT_NE(answer.find("Content-Length: 8\r\n"), std::string::npos) << answer;
  EXPECT_TRUE(answer.ends_with("\r\n\r\n{\"b\": 2}")) << answer;
}

TEST_F(http_query_test, client_may_say_more_or_end_its_side_before_the_answer) {
  client_socket router(server->port());
  router.send(post("/query", "{}") + "more").finish();
  auto query = queries->take();
  EXPECT_TRUE(exchange("GET /healthz HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200 "));
  query.reply({200, "{}"});
  EXPECT_TRUE(router.receive_all().starts_with("HTTP/1.1 200 "));
}

TEST_F(http_query_test, body_may_come_in_pieces) {
  client_socket router(server->port());
  const auto request = post("/query", std::string(100'000, 'x'));
  router.send(request.substr(0, 30)).send(request.substr(30, 50'000));
  EXPECT_TRUE(exchange("GET /healthz HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200 "));
  EXPECT_EQ(queries->size(), 0u) << "the body has not come whole";
  router.send(request.substr(50'030));
  auto query = queries->take();
  EXPECT_FALSE(query.by_hash);
  EXPECT_EQ(query.body, std::string(100'000, 'x'));
  query.reply({400, "{}"});
  EXPECT_TRUE(router.receive_all().starts_with("HTTP/1.1 400 "));
}

/// The number of lines is limited in a request's head, but not in its body.
TEST_F(http_query_test, body_may_have_many_lines) {
  std::string lines;
  for (int i = 0; i < 1000; ++i)
    lines += "\r\n";
  client_socket router(server->port());
  router.send(post("/query", "{" + lines + "}"));
  EXPECT_EQ(queries->take().body, "{" + lines + "}");
}

/// `curl -d` sends any body with the content type of a form, so the server must not care about the
/// type.
TEST_F(http_query_test, body_may_be_long_whatever_its_type_is_said_to_be) {
  const std::string body(100'000, 'x');
  for (const std::string type : {"application/x-www-form-urlencoded", "multipart/form-data"}) {
    client_socket router(server->port());
    router.send(post("/query", body, "Content-Type: " + type + "\r\n"));
    auto query = queries->take();
    EXPECT_EQ(query.body, body);
    query.reply({200, "{}"});
    EXPECT_TRUE(router.receive_all().starts_with("HTTP/1.1 200 "));
  }
}

TEST_F(http_query_test, a_compressed_body_is_refused_and_never_unpacked) {
  // The text "{}", compressed by gzip.
  const std::string packed("\x1f\x8b\x08\0\0\0\0\0\0\xff\xab\xae\x05\0\x43\xbf\xa6\xa3\x02\0\0\0",
                           22);
  for (const std::string how : {"gzip", "deflate", "br", "x"})
    EXPECT_TRUE(exchange(post("/query", packed, "Content-Encoding: " + how + "\r\n"))
                    .starts_with("HTTP/1.1 415 "))
        << how;
  EXPECT_TRUE(exchange(post("/query", "2\r\n{}\r\n0\r\n\r\n", "Transfer-Encoding: chunked\r\n"))
                  .starts_with("HTTP/1.1 411 "));
  EXPECT_EQ(queries->size(), 0u);
}

TEST_F(http_query_test, body_has_a_length_and_a_limit) {
  const std::string head = "POST /query HTTP/1.1\r\nHost: a\r\n";
  EXPECT_TRUE(exchange(head + "\r\n").starts_with("HTTP/1.1 411 "));
  const auto too_many = std::to_string(http_connection::body_bytes_max + 1);
  EXPECT_TRUE(
      exchange(head + "Content-Length: " + too_many + "\r\n\r\nx").starts_with("HTTP/1.1 413 "));
  EXPECT_EQ(queries->size(), 0u);
}

TEST_F(http_query_test, only_the_header_of_this_name_tells_the_length) {
  client_socket router(server->port());
  router.send("POST /query HTTP/1.1\r\nX-Content-Length: 1\r\nContent-Length: 3\r\n\r\nabc");
  auto query = queries->take();
  EXPECT_EQ(query.body, "abc");
  query.reply({200, "{}"});
}

TEST_F(http_query_test, other_writes_are_refused_before_their_body) {
  EXPECT_TRUE(
      exchange("POST /metrics HTTP/1.1\r\nContent-Length: 9\r\n\r\n").starts_with("HTTP/1.1 405 "));
  EXPECT_TRUE(
      exchange("PUT /query HTTP/1.1\r\nContent-Length: 9\r\n\r\n").starts_with("HTTP/1.1 405 "));
  EXPECT_TRUE(exchange("GET /query HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
}

TEST_F(http_query_test, more_than_may_be_open_are_refused) {
  std::deque<client_socket> routers;
  std::deque<arrived> open;
  for (std::size_t i = 0; i < http_server::queries_max; ++i) {
    routers.emplace_back(server->port()).send(post("/query", "{}"));
    open.push_back(queries->take());
  }
  EXPECT_TRUE(exchange(post("/query", "{}")).starts_with("HTTP/1.1 503 "));
  open.front().reply({200, "{}"});
  EXPECT_TRUE(routers.front().receive_all().starts_with("HTTP/1.1 200 "));
  client_socket again(server->port());
  again.send(post("/query", "{}"));
  queries->take().reply({200, "{}"});
  EXPECT_TRUE(again.receive_all().starts_with("HTTP/1.1 200 "));
}

TEST_F(http_query_test, who_begins_one_body_too_many_is_told_so) {
  std::deque<client_socket> routers;
  std::deque<arrived> open;
  for (std::size_t i = 0; i < http_server::queries_max; ++i) {
    routers.emplace_back(server->port()).send(post("/query", "{}"));
    open.push_back(queries->take());
  }
  const auto head = "POST /query HTTP/1.1\r\nContent-Length: 1000\r\n\r\n";
  EXPECT_TRUE(exchange(head).starts_with("HTTP/1.1 503 "));
}

TEST_F(http_query_test, an_answer_after_the_end_of_its_client_is_dropped) {
  auto router = std::make_unique<client_socket>(server->port());
  router->send(post("/query", "{}"));
  auto query = queries->take();
  router.reset();
  query.reply({200, "{}"});
  EXPECT_TRUE(exchange("GET /healthz HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200 "));
}

/// The limit counts queries that are being answered, not clients that wait for answers.
TEST_F(http_query_test, clients_that_go_away_leave_their_queries_open) {
  std::deque<arrived> open;
  for (std::size_t i = 0; i < http_server::queries_max; ++i) {
    client_socket router(server->port());
    router.send(post("/query", "{}")).reset_at_end();
    open.push_back(queries->take());
  }
  EXPECT_TRUE(exchange(post("/query", "{}")).starts_with("HTTP/1.1 503 "));
  open.pop_front(); // Drops a query without an answer.
  client_socket again(server->port());
  again.send(post("/query", "{}"));
  queries->take().reply({200, "{}"});
  EXPECT_TRUE(again.receive_all().starts_with("HTTP/1.1 200 "));
}

class http_late_query_test : public http_query_test {
protected:
  http_late_query_test() { query_timeout = std::chrono::milliseconds(100); }
};

TEST_F(http_late_query_test, a_query_without_an_answer_ends_with_its_time) {
  client_socket router(server->port());
  router.send(post("/query", "{}"));
  auto query = queries->take();
  EXPECT_EQ(router.receive_all(), "");
  query.reply({200, "{}"});
  EXPECT_TRUE(exchange("GET /healthz HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200 "));
}

} // namespace http_query_test
} // namespace peercache::metrics
