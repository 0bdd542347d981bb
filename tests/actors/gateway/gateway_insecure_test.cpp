#include "tests/actors/gateway/gateway_fixture.hpp"

namespace peercache::actors::gateway_insecure_test {
namespace {

/// A gateway that is bound to loopback, with TLS or without (the parameter).
class gateway_insecure : public gateway_fixture, public testing::WithParamInterface<bool> {
protected:
  gateway_insecure() {
    auto options = usual_options();
    options.tls = GetParam();
    options.session_is_held = [](std::uint32_t) { return true; };
    spawn_gateway(std::move(options));
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
