#include "actors/link_names.hpp"
#include "client/cache_client.hpp"
#include "link/connector_actor.hpp"
#include "link/system_config.hpp"
#include "net/socket.hpp"

#include <algorithm>
#include <chrono>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <optional>
#include <sys/socket.h>
#include <vector>

namespace peercache::actors {
namespace {

using namespace std::chrono_literals;

/// A port on which no connect is answered: its listen queue is full, and the kernel drops further
/// connects.
class silent_port {
public:
  silent_port() {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(listener_.get(), 0), 0);
    ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size);
    for (int i = 0; i < 4; ++i) {
      fillers_.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
      ::connect(fillers_.back().get(), reinterpret_cast<sockaddr*>(&address), size);
    }
    number = ntohs(address.sin_port);
  }
  std::uint16_t number = 0;

private:
  net::unique_fd listener_{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  std::vector<net::unique_fd> fillers_;
};

TEST(connector, addresses_that_do_not_answer_hold_up_no_other) {
  system_config config{2};
  caf::actor_system system{config};
  constexpr auto patience = 1000ms;
  auto connector = system.spawn(run_connector, patience, std::nullopt);
  std::vector<silent_port> ports(10);
  auto begin = std::chrono::steady_clock::now();
  {
    caf::scoped_actor self{system};
    std::vector<
        caf::response_handle<caf::blocking_actor, caf::detail::type_list<gateway_actor>, true>>
        pending;
    for (const auto& port : ports)
      pending.push_back(self->request(connector, 30s, dial_atom_v, std::string{"127.0.0.1"},
                                      port.number, std::string(), from_here{}));
    for (auto& each : pending)
      each.receive([](const gateway_actor&) { ADD_FAILURE() << "connected"; },
                   [](const caf::error&) {});
    auto took = std::chrono::steady_clock::now() - begin;
    EXPECT_GE(took, patience - 10ms);
    EXPECT_LT(took, 5 * patience) << "one after the other takes ten times as long as one";
    self->send_exit(connector, caf::exit_reason::user_shutdown);
  }
  connector = nullptr;
}

/// The peer behaves like a stopped process: the kernel accepts connections, and nobody reads CAF's
/// greeting.
TEST(connector, a_peer_that_is_frozen_keeps_no_client_from_ending) {
  net::unique_fd frozen;
  {
    auto listener = net::listen_on("127.0.0.1", 0, 8);
    ASSERT_TRUE(listener);
    frozen = std::move(*listener);
  }
  for (auto timeout : {1ms, 20ms, 400ms}) {
    client::client_options options;
    options.node_port = net::local_port(frozen);
    options.timeout = timeout;
    auto begin = std::chrono::steady_clock::now();
    EXPECT_FALSE(client::cache_client::connect(options));
    EXPECT_LT(std::chrono::steady_clock::now() - begin, timeout + 2s);
  }
}

} // namespace
} // namespace peercache::actors
