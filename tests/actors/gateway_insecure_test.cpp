#include "actors/gateway_actor.hpp"
#include "tests/actors/cluster_fixture.hpp"

namespace peercache::actors::gateway_insecure_test {
namespace {

/// A gateway that is bound to loopback, with TLS or without (the parameter).
class gateway_insecure : public cluster_fixture, public testing::WithParamInterface<bool> {
protected:
  bool drains = false;
  membership_actor membership = system.spawn(fake_membership, &drains);
  gateway_actor gateway = spawn_gateway();

  ~gateway_insecure() override {
    stop(gateway);
    stop(membership);
  }

  gateway_actor spawn_gateway() {
    gateway_options options;
    options.cluster = "test";
    options.tls = GetParam();
    options.self = here;
    options.directory = shard_here;
    options.membership = membership;
    options.pool = pool;
    options.disk_scanned = [] { return 1.0; };
    options.caught_up = [] { return true; };
    options.session_is_dead = [](std::uint32_t) { return false; };
    options.session_is_held = [](std::uint32_t) { return true; };
    options.ready = [](bool, const std::string&) {};
    return system.spawn(run_gateway, std::move(options));
  }
  /// Returns the value of the metric `insecure` when the gateway has this topology.
  double with(const topology_ptr& cluster) {
    caf::anon_send(gateway, topology_atom_v, cluster);
    settle();
    return ask<node_report>(gateway, status_atom_v)->samples.value(metric::insecure);
  }
};

INSTANTIATE_TEST_SUITE_P(plain_and_tls, gateway_insecure, testing::Bool());

TEST_P(gateway_insecure, is_said_of_several_nodes_without_tls_and_not_of_one) {
  const bool tls = GetParam();
  EXPECT_EQ(with(topology_of({{here, shard_here}}, 1)), 0);
  EXPECT_EQ(with(topology_of({{here, shard_here}, {there, shard_there}}, 2)), tls ? 0 : 1);
  EXPECT_EQ(with(topology_of({{here, shard_here}}, 3)), 0) << "the other one has left";
}

} // namespace
} // namespace peercache::actors::gateway_insecure_test
