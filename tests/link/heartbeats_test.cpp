// Tests of the heartbeats on connections of actors: sent where nothing else tells that a process
// lives, and only there.

#include "link/node_middleman.hpp"
#include "link/system_config.hpp"

#include <arpa/inet.h>
#include <caf/all.hpp>
#include <caf/io/all.hpp>
#include <chrono>
#include <cstdint>
#include <gtest/gtest.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <optional>
#include <sys/socket.h>

namespace peercache::link {
namespace {

using namespace std::chrono_literals;

/// Returns this process's socket that is connected to the port.
std::optional<int> socket_to(std::uint16_t port) {
  for (int fd = 3; fd < 1024; ++fd) {
    sockaddr_in peer{};
    socklen_t size = sizeof peer;
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) == 0 &&
        peer.sin_family == AF_INET && ntohs(peer.sin_port) == port)
      return fd;
  }
  return std::nullopt;
}

/// Returns how many segments with bytes a socket has sent.
std::uint32_t segments_sent(int fd) {
  tcp_info now{};
  socklen_t size = sizeof now;
  EXPECT_EQ(::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &now, &size), 0);
  return now.tcpi_data_segs_out;
}

TEST(heartbeats, are_sent_only_where_nothing_else_is) {
  system_config node_config{1}, peer_config{1};
  caf::actor_system node{node_config}, peer{peer_config};
  auto served = node.spawn([](int) { return caf::behavior{[](int) {}}; }, 0);
  const auto port = node.middleman().publish(served, 0, "127.0.0.1");
  ASSERT_TRUE(port) << node.render(port.error());
  {
    auto remote = peer.middleman().remote_actor("127.0.0.1", *port);
    ASSERT_TRUE(remote) << peer.render(remote.error());
    const auto fd = socket_to(*port);
    ASSERT_TRUE(fd);
    caf::scoped_actor self{peer};
    const auto pause = [&self](std::chrono::milliseconds time) {
      self->delayed_send(self, time, 0);
      self->receive([](int) {});
    };
    caf::anon_send(*remote, 0);
    pause(1100ms); // The greeting is over, and the message spares a heartbeat.
    constexpr std::uint32_t messages = 40;
    auto before = segments_sent(*fd);
    for (std::uint32_t i = 0; i < messages; ++i) {
      caf::anon_send(*remote, 0);
      pause(50ms);
    }
    EXPECT_LE(segments_sent(*fd) - before, messages + 1) << "heartbeats beside messages";
    before = segments_sent(*fd);
    pause(2200ms);
    EXPECT_GE(segments_sent(*fd) - before, 3u) << "a peer at rest hears nothing";
  }
  caf::anon_send_exit(served, caf::exit_reason::user_shutdown);
  served = nullptr;
  leave_actor_system();
}

} // namespace
} // namespace peercache::link
