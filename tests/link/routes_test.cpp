// Tests of the connection that CAF's broker chooses for what it sends to a peer that has several.
#include "common/assert.hpp"
#include "link/connector_actor.hpp"
#include "link/node_middleman.hpp"
#include "link/system_config.hpp"
#include "net/socket.hpp"

#include <arpa/inet.h>
#include <caf/all.hpp>
#include <caf/io/all.hpp>
#include <caf/io/basp/version.hpp>
#include <caf/io/basp_broker.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <future>
#include <gtest/gtest.h>
#include <initializer_list>
#include <memory>
#include <netinet/in.h>
#include <optional>
#include <poll.h>
#include <set>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <vector>

namespace peercache::link::routes_test {
namespace {

using caf::io::connection_handle;

/// A peer that shakes hands on several connections to one port, as a process does that dials a node
/// several times at once.
class several_connections : public testing::Test {
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

  /// Returns one more connection of the peer, on which it has shaken hands. @param selects whether
  /// the peer says that it sends on this connection
  net::unique_fd connection(bool selects) const {
    net::unique_fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    auto greeting = handshake(0);
    if (selects) {
      const auto again = handshake(caf::io::basp::header::select_connection_flag);
      greeting.insert(greeting.end(), again.begin(), again.end());
    }
    send(fd, greeting);
    return fd;
  }
  /// Has the process dial the peer, which shakes hands. Returns the peer's end of the connection.
  net::unique_fd dialled() {
    auto listening = net::listen_on("127.0.0.1", 0, 8);
    EXPECT_TRUE(listening);
    auto connector = system.spawn(run_connector, std::chrono::milliseconds(2000), std::nullopt);
    net::unique_fd accepted;
    {
      caf::scoped_actor self{system};
      auto dial =
          self->request(connector, std::chrono::seconds(30), dial_atom_v, std::string("127.0.0.1"),
                        net::local_port(*listening), std::string(), from_here{});
      pollfd news{listening->get(), POLLIN, 0};
      EXPECT_EQ(::poll(&news, 1, 10'000), 1);
      accepted = net::unique_fd(::accept4(listening->get(), nullptr, nullptr, SOCK_CLOEXEC));
      send(accepted, server_handshake());
      dial.receive([](const gateway_actor&) {},
                   [&](const caf::error& why) { ADD_FAILURE() << system.render(why); });
      self->send_exit(connector, caf::exit_reason::user_shutdown);
    }
    return accepted;
  }
  /// Reads until the process closes the connection. False when it does not within 10 s.
  static bool is_closed(const net::unique_fd& fd) {
    for (char bytes[4096];;) {
      pollfd news{fd.get(), POLLIN, 0};
      if (::poll(&news, 1, 10'000) != 1)
        return false;
      if (::recv(fd.get(), bytes, sizeof bytes, 0) <= 0)
        return true;
    }
  }

  /// How the broker reaches the peer.
  struct routes {
    std::size_t connections = 0;
    connection_handle used; ///< The connection on which the broker sends.
  };
  routes look() {
    auto& middleman = system.middleman();
    const auto basp = middleman.named_broker<caf::io::basp_broker>(caf::atom("BASP"));
    auto* broker = dynamic_cast<caf::io::basp_broker*>(caf::actor_cast<caf::abstract_actor*>(basp));
    PEERCACHE_ASSERT(broker != nullptr);
    auto asked = std::make_shared<std::promise<routes>>();
    auto answer = asked->get_future();
    middleman.run_later([this, asked, broker] {
      const auto used = broker->instance.tbl().lookup_direct(peer);
      asked->set_value(
          {broker->instance.tbl().direct_by_hdl_.size(), used ? *used : connection_handle()});
    });
    return answer.get();
  }
  bool has_connections(std::size_t count) {
    for (const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
         look().connections != count; std::this_thread::yield())
      if (std::chrono::steady_clock::now() > end)
        return false;
    return true;
  }

private:
  static void send(const net::unique_fd& fd, const std::vector<char>& bytes) {
    EXPECT_EQ(::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  std::vector<char> server_handshake() const {
    std::vector<char> bytes;
    caf::io::basp::header header{caf::io::basp::message_type::server_handshake,
                                 0,
                                 0,
                                 caf::io::basp::version,
                                 caf::invalid_actor_id,
                                 caf::invalid_actor_id};
    auto payload = caf::make_callback([this](caf::serializer& sink) -> caf::error {
      return sink(peer, std::vector<std::string>{"generic-caf-app"}, caf::actor_id{7},
                  std::set<std::string>{});
    });
    caf::io::basp::instance::write(nullptr, bytes, header, &payload);
    return bytes;
  }
  std::vector<char> handshake(std::uint8_t flags) const {
    std::vector<char> bytes;
    caf::io::basp::header header{caf::io::basp::message_type::client_handshake,
                                 flags,
                                 0,
                                 0,
                                 caf::invalid_actor_id,
                                 caf::invalid_actor_id};
    auto payload =
        caf::make_callback([this](caf::serializer& sink) -> caf::error { return sink(peer); });
    caf::io::basp::instance::write(nullptr, bytes, header, &payload);
    return bytes;
  }

  const caf::node_id peer = caf::make_node_id(1, caf::node_id::default_data::host_id_type{1});
  system_config config{1};
  caf::actor_system system{config};
  // The lambda takes an argument, because without one CAF 0.17 binds a reference to a null pointer.
  caf::actor served = system.spawn([](int) { return caf::behavior{[](int) {}}; }, 0);
  std::uint16_t port = 0;
};

/// A peer that has several connections by its dials closes all but the one that it selects. An
/// answer on one that it has closed is lost.
TEST_F(several_connections, the_end_of_one_changes_nothing_for_the_one_that_the_peer_selected) {
  const auto kept = connection(true);
  ASSERT_TRUE(has_connections(1));
  std::vector<net::unique_fd> others;
  while (others.size() < 4)
    others.push_back(connection(false));
  ASSERT_TRUE(has_connections(5));
  const auto selected = look().used;
  while (!others.empty()) {
    others.erase(others.begin());
    ASSERT_TRUE(has_connections(1 + others.size()));
    EXPECT_EQ(look().used, selected) << others.size() << " other connections are open";
  }
}

/// When the selected connection ends, the broker uses one that is left.
TEST_F(several_connections, the_end_of_the_selected_one_leaves_another) {
  auto first = connection(true);
  ASSERT_TRUE(has_connections(1));
  const auto selected = look().used;
  const auto second = connection(false);
  ASSERT_TRUE(has_connections(2));
  first.reset();
  ASSERT_TRUE(has_connections(1));
  EXPECT_FALSE(look().used.invalid());
  EXPECT_NE(look().used, selected);
}

/// The peer may close the connection that it has dialled, as it was dialled as well.
TEST_F(several_connections, a_dial_at_the_same_time_as_the_peers_is_kept) {
  auto of_peer = connection(false);
  ASSERT_TRUE(has_connections(1));
  const auto first = look().used;
  const auto of_process = dialled();
  ASSERT_TRUE(has_connections(2));
  const auto used = look().used;
  EXPECT_NE(used, first);
  of_peer.reset();
  ASSERT_TRUE(has_connections(1));
  EXPECT_EQ(look().used, used);
}

TEST_F(several_connections, a_dial_is_closed_when_the_peer_has_selected_another) {
  const auto of_peer = connection(true);
  ASSERT_TRUE(has_connections(1));
  const auto first = look().used;
  EXPECT_TRUE(is_closed(dialled()));
  EXPECT_EQ(look().used, first);
  EXPECT_EQ(look().connections, 1u);
}

} // namespace
} // namespace peercache::link::routes_test
