#include "net/tls_handshakes.hpp"
#include "tests/support/certificates.hpp"

#include "common/log.hpp"

#include <condition_variable>
#include <gmock/gmock.h>
#include <poll.h>
#include <spdlog/sinks/ostream_sink.h>
#include <sstream>
#include <sys/socket.h>
#include <thread>

namespace peercache::net::tls_handshakes_test {
namespace {

using step = tls_session::step;

/// A `tls_handshakes`, a listener whose connections it gets, and the peers whose handshakes
/// succeeded.
class tls_handshakes_test : public testing::Test {
protected:
  tls_handshakes_test() {
    spdlog::set_default_logger(std::make_shared<spdlog::logger>(
        "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(lines_)));
  }
  ~tls_handshakes_test() override {
    work->stop();
    thread_.join();
    spdlog::set_default_logger(before_);
  }

  /// Connects to the listener, and gives the accepted end to the handshakes. Returns the dialling
  /// end.
  unique_fd connect() {
    auto dialled = std::move(*start_connect("127.0.0.1", local_port(listener), {}));
    pollfd waiting{listener.get(), POLLIN, 0};
    EXPECT_EQ(::poll(&waiting, 1, 5000), 1);
    work->add(accept_from(listener, {}), [this](unique_fd socket, tls_session tls) {
      const std::lock_guard guard(lock_);
      came_.push_back(tls.peer().name);
      kept_.push_back(std::move(socket));
      changed_.notify_all();
    });
    return dialled;
  }
  /// Shakes hands on the dialling side until the handshake has succeeded or failed.
  step shake_hands(tls_session& tls, int fd) {
    for (;;) {
      if (const auto now = tls.shake_hands(); now != step::working)
        return now;
      pollfd waiting{fd, tls.awaited(), 0};
      if (::poll(&waiting, 1, 5000) != 1)
        return step::working;
    }
  }
  std::vector<std::string> wait_for(std::size_t count) {
    std::unique_lock guard(lock_);
    changed_.wait_for(guard, std::chrono::seconds(5), [&] { return came_.size() >= count; });
    return came_;
  }
  /// Waits until the other side has closed the connection. Returns whether it has.
  static bool closed(int fd) {
    char byte = 0;
    pollfd waiting{fd, POLLIN, 0};
    while (::poll(&waiting, 1, 5000) == 1)
      if (const auto got = ::recv(fd, &byte, 1, 0); got == 0 || (got < 0 && errno != EAGAIN))
        return true;
    return false;
  }
  /// Returns what was logged. @pre no peer is refused at this moment
  std::string lines() const {
    spdlog::default_logger()->flush(); // Takes the lock under which the lines were written.
    return lines_.str();
  }

  certificates ca;
  std::shared_ptr<tls_context> node = context_of(ca.node());
  std::shared_ptr<tls_context> client = context_of(ca.client());
  unique_fd listener = std::move(*listen_on("127.0.0.1", 0, 64));
  std::unique_ptr<tls_handshakes> work = std::move(*tls_handshakes::create(node));

private:
  std::ostringstream lines_;
  const std::shared_ptr<spdlog::logger> before_ = spdlog::default_logger();
  std::mutex lock_;
  std::condition_variable changed_;
  std::vector<std::string> came_;
  std::vector<unique_fd> kept_;
  std::thread thread_{[this] { work->run(); }};
};

TEST_F(tls_handshakes_test, who_shows_a_certificate_of_the_cluster_comes_through) {
  const auto socket = connect();
  auto tls = client->dialled(socket.get());
  EXPECT_EQ(shake_hands(tls, socket.get()), step::established);
  EXPECT_EQ(wait_for(1), std::vector<std::string>{"engine"});
  EXPECT_EQ(work->open(), 0u);
}

TEST_F(tls_handshakes_test, who_says_nothing_is_dropped_within_the_limit_and_keeps_nobody_out) {
  std::vector<unique_fd> silent;
  for (int i = 0; i < 20; ++i)
    silent.push_back(connect());
  const auto began = std::chrono::steady_clock::now();
  const auto socket = connect();
  auto tls = client->dialled(socket.get());
  EXPECT_EQ(shake_hands(tls, socket.get()), step::established);
  for (const auto& each : silent)
    EXPECT_TRUE(closed(each.get()));
  EXPECT_GE(std::chrono::steady_clock::now() - began, std::chrono::seconds(1));
  EXPECT_EQ(wait_for(1).size(), 1u);
}

TEST_F(tls_handshakes_test, many_who_are_refused_cause_one_line_of_the_log) {
  for (int i = 0; i < 10; ++i) {
    const auto socket = connect();
    const std::string plain = "PCL1 and no TLS";
    ASSERT_EQ(::send(socket.get(), plain.data(), plain.size(), MSG_NOSIGNAL),
              ssize_t(plain.size()));
    ASSERT_TRUE(closed(socket.get()));
  }
  const auto said = lines();
  EXPECT_THAT(said, testing::HasSubstr("refused a connection from 127.0.0.1"));
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
}

TEST_F(tls_handshakes_test, a_handshake_that_stops_halfway_is_dropped) {
  const auto socket = connect();
  // The beginning of a TLS record of 512 bytes, which never come.
  const std::string begin("\x16\x03\x01\x02\x00\x01", 6);
  ASSERT_EQ(::send(socket.get(), begin.data(), begin.size(), MSG_NOSIGNAL), ssize_t(begin.size()));
  EXPECT_TRUE(closed(socket.get()));
  EXPECT_THAT(lines(), testing::HasSubstr("no handshake within 2 s"));
}

} // namespace
} // namespace peercache::net::tls_handshakes_test
