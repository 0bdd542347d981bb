// Tests of a node's report while some of its actors do not answer.

#include "tests/actors/gateway/gateway_fixture.hpp"

#include <algorithm>

namespace peercache::actors::gateway_status_test_file {
namespace {

using metrics::metric;

using gateway_status_test = gateway_fixture;

} // namespace

TEST_F(gateway_status_test, the_status_names_the_parts_that_it_lacks) {
  auto silent = system.spawn(mute_actor, nullptr);
  auto options = usual_options();
  options.disk = caf::actor_cast<disk_actor>(silent);
  options.membership = caf::actor_cast<membership_actor>(silent);
  spawn_gateway(options);
  auto asked = self->request(gateway, caf::infinite, status_atom_v);
  settle();
  pass(std::chrono::milliseconds(1000));
  std::vector<std::string> lacks;
  std::uint64_t owners = 0;
  asked.receive(
      [&](const node_report& report) {
        lacks = report.silent;
        owners = report.samples.count(metric::directory_owners);
      },
      [](const caf::error& why) { FAIL() << to_string(why); });
  std::sort(lacks.begin(), lacks.end());
  EXPECT_EQ(lacks, (std::vector<std::string>{"disk tier", "membership"}));
  EXPECT_GT(owners, 0u) << "the others' parts are there";
  stop(silent);
}

} // namespace peercache::actors::gateway_status_test_file
