// Tests of the heartbeats on connections of actors: sent where nothing else tells that a process
// lives, and only there; and of what the beat of the heartbeats does to other connections.

#include "link/node_middleman.hpp"
#include "link/system_config.hpp"
#include "net/socket.hpp"
#include "tests/link/dialling.hpp"

#include <arpa/inet.h>
#include <caf/all.hpp>
#include <caf/io/all.hpp>
#include <caf/io/basp_broker.hpp>
#include <chrono>
#include <cstdint>
#include <gtest/gtest.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <optional>
#include <set>
#include <string>
#include <sys/socket.h>
#include <thread>

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

/// CAF takes a connection in its handshake for one that was silent since the machine started, and
/// would close it at the next beat.
TEST(heartbeats, end_no_connection_whose_peer_greets_late) {
  auto listening = net::listen_on("127.0.0.1", 0, 8);
  ASSERT_TRUE(listening);
  const auto port = net::local_port(*listening);
  dialling caller(nullptr);
  std::string fault = "not dialled";
  std::thread dial([&] { fault = caller.dial(port); });
  system_config node_config{1};
  caf::actor_system node{node_config};
  auto served = node.spawn(
      [](int) { return caf::behavior{[](const std::string& asked) { return asked; }}; }, 0);
  {
    caf::scoped_actor self{node};
    self->delayed_send(self, 1100ms, 0); // The caller's process has two beats meanwhile.
    self->receive([](int) {});
    auto basp = node.middleman().named_broker<caf::io::basp_broker>(caf::atom("BASP"));
    self->send(basp, caf::publish_atom_v,
               node.middleman().backend().new_doorman(listening->release()), port,
               caf::actor_cast<caf::strong_actor_ptr>(served), std::set<std::string>{});
  }
  dial.join();
  EXPECT_EQ(fault, "");
  if (fault.empty()) {
    EXPECT_EQ(caller.ask("hello"), "hello");
  }
  caf::anon_send_exit(served, caf::exit_reason::user_shutdown);
  served = nullptr;
  node.await_actors_before_shutdown(false);
  leave_actor_system();
}

} // namespace
} // namespace peercache::link
