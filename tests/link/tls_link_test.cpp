// Tests of CAF's protocol at a control port under TLS: which peers are let in, and that bytes
// arrive.
#include "link/node_middleman.hpp"
#include "link/system_config.hpp"
#include "net/socket.hpp"
#include "tests/link/dialling.hpp"
#include "tests/support/certificates.hpp"

#include <caf/all.hpp>
#include <caf/io/all.hpp>
#include <chrono>
#include <gmock/gmock.h>
#include <memory>
#include <optional>
#include <poll.h>
#include <string>
#include <sys/socket.h>
#include <vector>

namespace peercache::link::tls_link_test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

/// An actor system that publishes an actor under TLS, as a node publishes its gateway.
class tls_link_test : public testing::Test {
protected:
  void SetUp() override {
    auto published = system_->middleman().publish(served_, 0, "127.0.0.1");
    ASSERT_TRUE(published) << system_->render(published.error());
    port = *published;
  }
  void TearDown() override {
    caf::anon_send_exit(served_, caf::exit_reason::user_shutdown);
    served_ = nullptr;
    system_->await_actors_before_shutdown(false);
    system_.reset();
    leave_actor_system();
  }
  /// From now on serves without TLS.
  void serve_plainly() {
    TearDown();
    config_ = std::make_unique<system_config>(1);
    system_ = std::make_unique<caf::actor_system>(*config_);
    served_ = spawn_served();
    SetUp();
  }
  net::unique_fd raw_connection() const {
    auto made = net::start_connect("127.0.0.1", port, {});
    EXPECT_TRUE(made);
    pollfd ready{made->get(), POLLOUT, 0};
    EXPECT_EQ(::poll(&ready, 1, 10'000), 1);
    return std::move(*made);
  }
  /// Reads until the other side closes the connection. Returns the number of bytes; nothing when it
  /// does not close the connection within 10 s.
  static std::optional<std::size_t> said_until_closed(int fd) {
    std::size_t said = 0;
    for (char bytes[4096];;) {
      pollfd news{fd, POLLIN, 0};
      if (::poll(&news, 1, 10'000) != 1)
        return std::nullopt;
      const auto got = ::recv(fd, bytes, sizeof bytes, 0);
      if (got <= 0)
        return said;
      said += static_cast<std::size_t>(got);
    }
  }

  certificates ca;
  net::tls_files node_files = ca.node();
  std::shared_ptr<net::tls_context> node = context_of(node_files);
  std::shared_ptr<net::tls_context> client = context_of(ca.client());
  std::uint16_t port = 0;

private:
  caf::actor spawn_served() {
    // The lambda takes an argument, because without one CAF 0.17 binds a reference to a null
    // pointer.
    return system_->spawn(
        [](int) { return caf::behavior{[](const std::string& asked) { return asked; }}; }, 0);
  }

  std::unique_ptr<system_config> config_ = std::make_unique<system_config>(1, node);
  std::unique_ptr<caf::actor_system> system_ = std::make_unique<caf::actor_system>(*config_);
  caf::actor served_ = spawn_served();
};

TEST_F(tls_link_test, a_client_and_a_node_of_the_cluster_are_served) {
  for (const auto& who : {client, context_of(ca.node("node-2"))}) {
    dialling member(who);
    ASSERT_EQ(member.dial(port), "");
    EXPECT_EQ(member.ask("hello"), "hello");
  }
}

TEST_F(tls_link_test, long_messages_arrive_whole_in_both_directions) {
  dialling member(client);
  ASSERT_EQ(member.dial(port), "");
  for (const std::size_t bytes : {1u, 16'000u, 70'000u, 9'000'001u}) {
    std::string text(bytes, '\0');
    for (std::size_t i = 0; i < bytes; ++i)
      text[i] = static_cast<char>(i * 31 + i / 255);
    EXPECT_TRUE(member.ask(text) == text) << bytes << " bytes";
  }
}

TEST_F(tls_link_test, who_has_no_certificate_of_this_cluster_is_refused) {
  certificates another_ca;
  certificates another_cluster("another");
  EXPECT_THAT(dialling(context_of(another_ca.client())).dial(port), HasSubstr("no TLS with it"));
  EXPECT_NE(dialling(context_of(another_cluster.node())).dial(port), "");
  EXPECT_NE(dialling(nullptr).dial(port), "");
}

TEST_F(tls_link_test, a_node_that_shows_another_nodes_certificate_is_not_spoken_with) {
  EXPECT_EQ(dialling(client).dial(port, "node-1"), "");
  dialling meaning_another(context_of(ca.node("node-3")));
  const auto fault = meaning_another.dial(port, "node-2");
  EXPECT_THAT(fault, HasSubstr("that of the node 'node-1'"));
  EXPECT_THAT(fault, HasSubstr("'node-2' is meant"));
  serve_plainly();
  EXPECT_EQ(dialling(nullptr).dial(port, "node-2"), "") << "without TLS nobody shows a name";
}

TEST_F(tls_link_test, without_tls_on_the_other_side_nothing_is_said_to_it) {
  serve_plainly();
  EXPECT_EQ(dialling(nullptr).dial(port), "");
  EXPECT_THAT(dialling(client).dial(port), HasSubstr("no TLS with it"));
}

TEST_F(tls_link_test, strangers_hear_nothing_of_the_protocol_and_are_dropped_within_seconds) {
  std::vector<net::unique_fd> silent;
  for (int i = 0; i < 30; ++i)
    silent.push_back(raw_connection());
  const auto plain = raw_connection();
  const std::string greeting(64, '\1');
  ASSERT_EQ(::send(plain.get(), greeting.data(), greeting.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(greeting.size()));
  EXPECT_LT(said_until_closed(plain.get()).value_or(1000), 16u) << "an alert of TLS, and no more";
  dialling member(client);
  EXPECT_EQ(member.dial(port), "") << "while strangers are connected";
  for (const auto& each : silent)
    EXPECT_EQ(said_until_closed(each.get()), 0u);
}

TEST_F(tls_link_test, a_certificate_that_was_replaced_is_shown_to_the_next_and_breaks_nobody) {
  dialling before(client);
  ASSERT_EQ(before.dial(port), "");
  const auto other = ca.node("node-2");
  std::filesystem::copy_file(other.certificate, node_files.certificate,
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_FALSE(node->look_again()) << "the key is not there yet";
  EXPECT_EQ(dialling(client).dial(port), "") << "the old certificate is shown";
  std::filesystem::copy_file(other.key, node_files.key,
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_TRUE(node->look_again());
  EXPECT_EQ(dialling(client).dial(port), "");
  EXPECT_EQ(before.ask("still there"), "still there");
}

TEST_F(tls_link_test, a_system_ends_while_strangers_are_connected) {
  const auto silent = raw_connection();
  dialling member(client);
  EXPECT_EQ(member.dial(port), "");
  // Leaves both connections open: the fixture must be able to end the system with them.
}

} // namespace
} // namespace peercache::link::tls_link_test
