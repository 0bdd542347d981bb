#pragma once

#include "common/assert.hpp"
#include "link/node_middleman.hpp"
#include "link/system_config.hpp"
#include "net/socket.hpp"

#include <arpa/inet.h>
#include <caf/all.hpp>
#include <caf/io/all.hpp>
#include <caf/io/basp_broker.hpp>
#include <chrono>
#include <cstdint>
#include <future>
#include <gtest/gtest.h>
#include <memory>
#include <netinet/in.h>
#include <poll.h>
#include <string_view>
#include <sys/socket.h>
#include <thread>
#include <type_traits>
#include <utility>

namespace peercache::link {

/// An actor system that publishes an actor at a port, as a node publishes its gateway. The actor
/// answers a number with the same number.
class published_actor : public testing::Test {
protected:
  void SetUp() override {
    auto published = system.middleman().publish(served, 0, "127.0.0.1");
    ASSERT_TRUE(published) << system.render(published.error());
    port = *published;
  }
  void TearDown() override {
    caf::anon_send_exit(served, caf::exit_reason::user_shutdown);
    served = nullptr;
    leave_actor_system();
  }

  sockaddr_in address() const {
    sockaddr_in of_port{};
    of_port.sin_family = AF_INET;
    of_port.sin_port = htons(port);
    of_port.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return of_port;
  }
  /// Returns a plain connection to the port, on which the test may send any bytes.
  net::unique_fd raw_connection() const {
    net::unique_fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const auto to = address();
    EXPECT_EQ(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
    return fd;
  }
  static void send(const net::unique_fd& fd, std::string_view bytes) {
    EXPECT_EQ(::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  /// Reads until the other side closes the connection. Returns false when it does not within 10 s.
  static bool is_closed(const net::unique_fd& fd) {
    for (char bytes[4096];;) {
      pollfd news{fd.get(), POLLIN, 0};
      if (::poll(&news, 1, 10'000) != 1)
        return false;
      if (::recv(fd.get(), bytes, sizeof bytes, 0) <= 0)
        return true;
    }
  }

  /// Calls `question` with CAF's broker, in the thread of the broker. Returns the answer.
  template <class Question>
  auto ask_broker(Question question) {
    using answer = std::invoke_result_t<Question, caf::io::basp_broker&>;
    auto& middleman = system.middleman();
    const auto basp = middleman.named_broker<caf::io::basp_broker>(caf::atom("BASP"));
    auto* broker = dynamic_cast<caf::io::basp_broker*>(caf::actor_cast<caf::abstract_actor*>(basp));
    PEERCACHE_ASSERT(broker != nullptr);
    auto asked = std::make_shared<std::promise<answer>>();
    auto answered = asked->get_future();
    middleman.run_later(
        [asked, broker, question = std::move(question)] { asked->set_value(question(*broker)); });
    return answered.get();
  }

  template <class Condition>
  static bool within(std::chrono::milliseconds most, Condition&& holds) {
    for (const auto end = std::chrono::steady_clock::now() + most; !holds();
         std::this_thread::yield())
      if (std::chrono::steady_clock::now() > end)
        return false;
    return true;
  }

  system_config config{1};
  caf::actor_system system{config};
  // The lambda takes an argument, because without one CAF 0.17 binds a reference to a null pointer.
  caf::actor served =
      system.spawn([](int) { return caf::behavior{[](int asked) { return asked; }}; }, 0);
  std::uint16_t port = 0;
};

} // namespace peercache::link
