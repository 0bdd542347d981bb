// Tests of a client's connections to members under TLS, by the certificate that a member shows.

#include "client/members/member_channels.hpp"
#include "link/node_middleman.hpp"
#include "link/system_config.hpp"
#include "tests/client/actors/fake_node.hpp"
#include "tests/support/certificates.hpp"
#include "tests/support/served_lookups.hpp"

#include <gtest/gtest.h>

#include <future>
#include <thread>

namespace peercache::client {
namespace {

/// A node whose look-up port has a certificate, and the channels of a client to the member
/// `there`.
class member_tls_test : public testing::Test {
protected:
  /// Whether a client with the certificate `own` accepts a member that shows `shown`.
  bool is_reached(const net::tls_files& shown, const net::tls_files& own) {
    fake_node says;
    fake_shard unasked;
    link::system_config config{1, *net::tls_context::open(shown)};
    caf::actor_system system{config};
    auto handshakes = link::handshakes_of(system);
    EXPECT_TRUE(handshakes);
    const auto gateway = system.spawn(run_fake_gateway, &says);
    const auto directory = system.spawn(run_fake_shard, &unasked);
    discovery::member member;
    member.name = "there";
    member.inc = {3, 4};
    member.host = "127.0.0.1";
    bool reached = false;
    {
      const actors::served_lookups port(system, ca.authority().cluster(), member.inc, directory,
                                        gateway, nullptr, *handshakes);
      member.lookup_port = port.port();
      link::leave_actor_system();
      reached = reach(member, own);
    }
    caf::scoped_actor self{system};
    self->send_exit(gateway, caf::exit_reason::user_shutdown);
    self->send_exit(directory, caf::exit_reason::user_shutdown);
    self->wait_for(gateway, directory);
    return reached;
  }

  bool reach(const discovery::member& member, const net::tls_files& own) {
    member_channels channels(ca.authority().cluster(), *net::tls_context::open(own));
    std::promise<bool> first;
    channels.listen([&, told = false](const incarnation&, bool stands) mutable {
      if (!std::exchange(told, true))
        first.set_value(stands);
    });
    channels.open(member);
    std::thread thread([&] { channels.run(); });
    const bool reached = first.get_future().get();
    channels.stop();
    thread.join();
    return reached;
  }

  certificates ca;
};

TEST_F(member_tls_test, a_member_is_who_shows_its_name) {
  EXPECT_TRUE(is_reached(ca.node("there"), ca.client()));
}

TEST_F(member_tls_test, another_node_of_the_cluster_is_not_taken_for_it) {
  EXPECT_FALSE(is_reached(ca.node("elsewhere"), ca.client()));
}

TEST_F(member_tls_test, a_client_is_not_taken_for_a_node_and_strangers_are_for_nobody) {
  EXPECT_FALSE(is_reached(ca.client("there"), ca.client()));
  const certificates other;
  EXPECT_FALSE(is_reached(other.node("there"), ca.client()));
  EXPECT_FALSE(is_reached(ca.node("there"), other.client())) << "nor does a node let one in";
}

} // namespace
} // namespace peercache::client
