// Tests of a client's connections to members under TLS, by the certificate that a member shows.

#include "actors/lookup_broker.hpp"
#include "client/member_channels.hpp"
#include "link/system_config.hpp"
#include "tests/client/actors/fake_node.hpp"
#include "tests/support/certificates.hpp"

#include <gtest/gtest.h>

#include <future>
#include <thread>

namespace peercache::client {
namespace {

/// A node whose lookup broker has a certificate, and the channels of a client to the member
/// `there`.
class member_tls_test : public testing::Test {
protected:
  /// Whether a client with the certificate `own` accepts a member that shows `shown`.
  bool is_reached(const net::tls_files& shown, const net::tls_files& own) {
    fake_node says;
    fake_shard unasked;
    link::system_config config{1, *net::tls_context::open(shown)};
    caf::actor_system system{config};
    auto doorman = system.middleman().backend().new_tcp_doorman(0, "127.0.0.1", true);
    EXPECT_TRUE(doorman);
    discovery::member member;
    member.name = "there";
    member.inc = {3, 4};
    member.host = "127.0.0.1";
    member.lookup_port = (*doorman)->port();
    actors::lookup_broker_options options;
    options.cluster = ca.authority().cluster();
    options.inc = member.inc;
    options.gateway = system.spawn(run_fake_gateway, &says);
    options.directory = system.spawn(run_fake_shard, &unasked);
    options.doorman = std::move(*doorman);
    const std::vector<caf::actor> all{
        caf::actor_cast<caf::actor>(options.gateway),
        caf::actor_cast<caf::actor>(options.directory),
        system.middleman().spawn_broker(actors::run_lookup_broker, std::move(options))};
    link::leave_actor_system();
    const bool reached = reach(member, own);
    caf::scoped_actor self{system};
    for (const auto& each : all)
      self->send_exit(each, caf::exit_reason::user_shutdown);
    self->wait_for(all[0], all[1], all[2]);
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
