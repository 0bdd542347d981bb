#include "common/test_guards.hpp"
#include "discovery/membership.hpp"
#include "tests/support/membership_net.hpp"

#include <gtest/gtest.h>

namespace peercache::discovery {
namespace {

/// Returns the stamp of a plain member's view after an older view has reached the member late.
view_stamp stamp_after_an_older_view() {
  auto net = tests::converged_net(3);
  auto& machine = net.machine(2);
  auto older = machine.current();
  older.version -= 1;
  machine.on_packet(view_packet{older}, net.now());
  return machine.current().stamp();
}

TEST(membership, without_its_guard_an_older_view_replaces_a_newer_one) {
  auto guarded = stamp_after_an_older_view();
  guard_switched_off scope(guard::view);
  EXPECT_LT(stamp_after_an_older_view(), guarded);
}

} // namespace
} // namespace peercache::discovery
