// Tests of how a clearing actor says goodbye, and of what it does from then on.

#include "tests/actors/clearing/clearing_rig.hpp"

namespace peercache::actors {
namespace {

/// After a node's goodbye, clears are certain without the node. If the node could not remember that
/// it left, its next process would not know that there may have been such clears.
TEST_F(clearing_test, a_node_that_cannot_remember_that_it_left_does_not_say_goodbye) {
  start("a");
  start("b");
  show_all(view_of(1, {"a", "b"}));
  nodes["b"].why_not_kept = "no space left";
  EXPECT_FALSE(*ask<bool>(nodes["b"].clearing, leave_atom_v, from_here{}));
  EXPECT_TRUE(nodes["b"].closed());
  show("a", view_of(2, {"a"}));
  settle();
  EXPECT_EQ(clear("a").missing, strings{"b"});
}

TEST_F(clearing_test, those_who_leave_at_once_leave_nobody_behind) {
  start("a");
  start("b");
  show_all(view_of(1, {"a", "b"}));
  // Node a has no connection to b, so a's goodbye does not reach b.
  show("a", view_of(2, {"a", "b"}, {"b"}));
  settle();
  EXPECT_TRUE(*ask<bool>(nodes["a"].clearing, leave_atom_v, from_here{}));
  EXPECT_EQ(nodes["a"].noted.names(), "b") << "it goes on, for all that is known";
  EXPECT_TRUE(*ask<bool>(nodes["b"].clearing, leave_atom_v, from_here{}));
  EXPECT_EQ(nodes["b"].noted.names(), "") << "a has answered that it leaves";
}

/// Nodes that are stopped at the same time drain each at its own pace. At its next start, a node
/// that left (a) need not wait for a node that was still draining then (b).
TEST_F(clearing_test, those_who_are_about_to_leave_are_not_left_behind) {
  for (const auto* name : {"a", "b", "c"})
    start(name);
  show_all(view_of(1, {"a", "b", "c"}));
  nodes["b"].store->holds_clears = true; // Node b's disk answers nothing from now on.
  caf::anon_send(nodes["b"].clearing, drain_atom_v, from_here{});
  show("b", view_of(2, {"a", "b"}));
  settle();
  EXPECT_TRUE(*ask<bool>(nodes["a"].clearing, leave_atom_v, from_here{}));
  EXPECT_EQ(nodes["a"].noted.names(), "c");
  const auto report = clear("b");
  EXPECT_FALSE(report.certain) << "a would not know of it";
  EXPECT_NE(report.why_not.find("being stopped"), std::string::npos) << report.why_not;
}

/// Clears of other nodes do not wait for a node that has left, so it must not show pages that they
/// clear.
TEST_F(clearing_test, a_node_that_left_shows_no_page_to_anybody_whatever_it_hears_later) {
  start("a");
  show_all(view_of(1, {"a"}));
  nodes["a"].withdrawals.waits = true;
  const auto held = begin_clear("a");
  start("b");
  show("b", view_of(2, {"a", "b"}));
  // With a's connection to b cut, node a reaches b only by answers to b's questions.
  show("a", view_of(2, {"a", "b"}, {"b"}));
  settle();
  ASSERT_TRUE(nodes["b"].closed()) << "a answers when its pool has withdrawn what is older";
  caf::anon_send(nodes["a"].pool, beat_atom_v, from_here{}); // Releases node a's answer to b.
  auto leaving = self->request(nodes["b"].clearing, caf::infinite, leave_atom_v,
                               from_here{}); // Node b begins to leave before a's answer arrives.
  settle();
  leaving.receive([](bool) {}, [](const caf::error&) { ADD_FAILURE(); });
  EXPECT_FALSE(nodes["b"].caught_up);
  EXPECT_TRUE(nodes["b"].closed());
}

} // namespace
} // namespace peercache::actors
