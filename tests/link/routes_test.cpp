// Tests of the connection that CAF's broker chooses for what it sends to a peer that has several.
#include "common/test_guards.hpp"
#include "link/connector_actor.hpp"
#include "tests/link/published_actor.hpp"
#include "tests/support/basp_frames.hpp"

#include <caf/io/basp/version.hpp>
#include <chrono>
#include <cstddef>
#include <optional>
#include <poll.h>
#include <set>
#include <string>
#include <sys/socket.h>
#include <vector>

namespace peercache::link::routes_test {
namespace {

using caf::io::connection_handle;
using operation = basp_frames::operation;

/// A peer that shakes hands on several connections to one port, as a process does that dials a node
/// several times at once.
class several_connections : public published_actor {
protected:
  /// Returns one more connection of the peer, on which it has shaken hands. @param selects whether
  /// the peer says that it sends on this connection
  net::unique_fd connection(bool selects) const {
    auto fd = raw_connection();
    send(fd, peer.handshake() + (selects ? selecting_handshake() : ""));
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

  /// How the broker reaches the peer.
  struct routes {
    std::size_t connections = 0;
    connection_handle used;   ///< The connection on which the broker sends.
    bool is_the_peers = true; ///< The broker lists `used` as a connection of the peer.
  };
  routes look() {
    return ask_broker([this](caf::io::basp_broker& broker) {
      auto& table = broker.instance.tbl();
      const auto used = table.lookup_direct(name).value_or(connection_handle());
      return routes{table.direct_by_hdl_.size(), used, table.lookup_direct(used) == name};
    });
  }
  bool has_connections(std::size_t count) {
    return within(std::chrono::seconds(10), [&] { return look().connections == count; });
  }

  std::string selecting_handshake() const {
    return peer.frame(operation::client_handshake, peer.written(name), 0, 0,
                      caf::io::basp::header::select_connection_flag);
  }

private:
  std::string server_handshake() const {
    return peer.frame(operation::server_handshake,
                      peer.written(name, std::vector<std::string>{"generic-caf-app"},
                                   caf::actor_id{7}, std::set<std::string>{}),
                      caf::io::basp::version);
  }

  const caf::node_id name = caf::make_node_id(1, caf::node_id::default_data::host_id_type{1});
  const basp_frames peer{system, name};
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

/// A stranger that is not refused may make the broker send on a connection that was never the
/// peer's. The broker leaves that connection when another one ends.
TEST_F(several_connections, the_end_of_one_does_not_select_one_that_was_never_the_peers) {
  const guard_switched_off scope(guard::frames);
  auto first = connection(false);
  const auto second = connection(false);
  ASSERT_TRUE(has_connections(2));
  const auto strangers = raw_connection();
  send(strangers, selecting_handshake());
  ASSERT_TRUE(within(std::chrono::seconds(10), [&] { return !look().is_the_peers; }));
  first.reset();
  ASSERT_TRUE(has_connections(1));
  EXPECT_TRUE(look().is_the_peers);
}

} // namespace
} // namespace peercache::link::routes_test
