#include "actors/connector_actor.hpp"
#include "actors/system_config.hpp"
#include "rdma/socket.hpp"

#include <algorithm>
#include <chrono>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <vector>

namespace peercache::actors {
namespace {

using namespace std::chrono_literals;

/// A port that answers no connect: its queue is full, and the kernel drops what else comes.
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
  rdma::unique_fd listener_{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  std::vector<rdma::unique_fd> fillers_;
};

TEST(connector, addresses_that_do_not_answer_hold_up_no_other) {
  system_config config{2};
  caf::actor_system system{config};
  auto connector = system.spawn<caf::detached>(run_connector, 300ms);
  std::vector<silent_port> ports(10);
  auto begin = std::chrono::steady_clock::now();
  {
    caf::scoped_actor self{system};
    std::vector<
        caf::response_handle<caf::blocking_actor, caf::detail::type_list<gateway_actor>, true>>
        pending;
    for (const auto& port : ports)
      pending.push_back(
          self->request(connector, 30s, dial_atom_v, std::string{"127.0.0.1"}, port.number));
    for (auto& each : pending)
      each.receive([](const gateway_actor&) { ADD_FAILURE() << "connected"; },
                   [](const caf::error&) {});
    auto took = std::chrono::steady_clock::now() - begin;
    EXPECT_GE(took, 290ms);
    EXPECT_LT(took, 1500ms) << "one after the other takes 3 s";
    self->send_exit(connector, caf::exit_reason::user_shutdown);
  }
  connector = nullptr;
}

} // namespace
} // namespace peercache::actors
