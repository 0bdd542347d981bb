// Tests of the two ways to a node's gateway: the control port, which under TLS is for nodes and
// operators, and the Unix socket, which is for users of the host.
#include "link/node_middleman.hpp"
#include "net/host_socket.hpp"
#include "tests/link/dialling.hpp"
#include "tests/support/certificates.hpp"

#include <caf/io/all.hpp>
#include <caf/io/basp_broker.hpp>
#include <cstdlib>
#include <filesystem>
#include <gmock/gmock.h>
#include <optional>
#include <poll.h>
#include <set>
#include <string>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace peercache::link::host_doorman_test {
namespace {

using testing::HasSubstr;

/// An actor system that serves one actor at the control port and at the Unix socket, as a node
/// serves its gateway.
class host_doorman_test : public testing::Test {
protected:
  void SetUp() override {
    ::setenv(net::host_socket_variable, sockets().c_str(), 1);
    auto port_door = new_doorman(*system_, "127.0.0.1", 0, net::tls_peers::nodes_and_operators);
    ASSERT_TRUE(port_door);
    port = (*port_door)->port();
    auto opened = net::host_socket::listen({sockets(), "127.0.0.1", "127.0.0.1", port, {}});
    ASSERT_TRUE(opened) << opened.error().message;
    socket_ = std::move(*opened);
    publish(std::move(*port_door));
    publish(new_host_doorman(*system_, socket_->take(), port, net::host_users({})));
  }
  void TearDown() override {
    caf::anon_send_exit(served_, caf::exit_reason::user_shutdown);
    served_ = nullptr;
    system_->await_actors_before_shutdown(false);
    system_.reset();
    leave_actor_system();
    ::unsetenv(net::host_socket_variable);
  }

  std::string sockets() const { return ca.folder() + "/sockets"; }
  const std::string& path() const { return socket_->path(); }
  /// Removes the Unix socket, as if the node were on another host.
  void move_away() { socket_.reset(); }

  certificates ca;
  std::shared_ptr<net::tls_context> client = context_of(ca.client());
  std::uint16_t port = 0;

private:
  void publish(caf::io::doorman_ptr door) {
    auto basp = system_->middleman().named_broker<caf::io::basp_broker>(caf::atom("BASP"));
    caf::anon_send(basp, caf::publish_atom_v, std::move(door), port,
                   caf::actor_cast<caf::strong_actor_ptr>(served_), std::set<std::string>{});
  }

  system_config config_{1, context_of(ca.node())};
  std::optional<caf::actor_system> system_{std::in_place, config_};
  // The lambda takes an argument, because without one CAF 0.17 binds a reference to a null pointer.
  caf::actor served_ = system_->spawn(
      [](int) { return caf::behavior{[](const std::string& asked) { return asked; }}; }, 0);
  std::optional<net::host_socket> socket_;
};

TEST_F(host_doorman_test, a_process_of_this_user_is_served_at_the_socket_without_a_certificate) {
  for (const auto& tls : {client, std::shared_ptr<net::tls_context>()}) {
    dialling one(tls, net::host_sockets{});
    ASSERT_EQ(one.dial(port), "");
    EXPECT_EQ(one.ask("hello"), "hello");
  }
}

TEST_F(host_doorman_test, long_messages_arrive_whole_in_both_directions) {
  dialling one(client, net::host_sockets{});
  ASSERT_EQ(one.dial(port), "");
  for (const std::size_t bytes : {1u, 16'000u, 9'000'001u}) {
    std::string text(bytes, '\0');
    for (std::size_t i = 0; i < bytes; ++i)
      text[i] = static_cast<char>(i * 31 + i / 255);
    EXPECT_TRUE(one.ask(text) == text) << bytes << " bytes";
  }
}

TEST_F(host_doorman_test, the_port_takes_nodes_and_operators_and_no_client) {
  EXPECT_EQ(dialling(context_of(ca.node("node-2"))).dial(port), "");
  EXPECT_EQ(dialling(context_of(ca.issue(net::tls_role::operating, "anna"))).dial(port), "");
  EXPECT_NE(dialling(client).dial(port), "");
}

TEST_F(host_doorman_test, without_a_socket_only_a_clients_certificate_is_of_no_use) {
  move_away();
  dialling operating(context_of(ca.issue(net::tls_role::operating, "anna")), net::host_sockets{});
  ASSERT_EQ(operating.dial(port), "") << "by the port";
  EXPECT_EQ(operating.ask("hello"), "hello");
  EXPECT_THAT(dialling(client, net::host_sockets{}).dial(port), HasSubstr("net.socket_folder"));
}

TEST_F(host_doorman_test,
       a_process_of_another_user_hears_nothing_even_if_the_file_lets_it_connect) {
  if (::geteuid() != 0)
    GTEST_SKIP() << "only root can become another user";
  ASSERT_EQ(::chmod(ca.folder().c_str(), 0755), 0);
  ASSERT_EQ(::chmod(sockets().c_str(), 0755), 0);
  ASSERT_EQ(::chmod(path().c_str(), 0666), 0);
  for (const uid_t user : {uid_t{65534}, uid_t{0}}) {
    const auto child = ::fork();
    if (child == 0) {
      if (user != 0 && (::setgid(user) != 0 || ::setuid(user) != 0))
        ::_exit(10);
      const auto socket = net::host_sockets().connect("127.0.0.1", port);
      pollfd news{socket.get(), POLLIN, 0};
      char byte;
      const auto got = ::poll(&news, 1, 5000) == 1 ? ::read(socket.get(), &byte, 1) : -1;
      ::_exit(got > 0 ? 1 : got == 0 ? 2 : 3);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(WEXITSTATUS(status), user == 0 ? 1 : 2) << "user " << user;
  }
}

} // namespace
} // namespace peercache::link::host_doorman_test
