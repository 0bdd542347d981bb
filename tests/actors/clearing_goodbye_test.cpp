// Tests of how a clearing actor says goodbye, and of what it does from then on.

#include "clearing_rig.hpp"

namespace peercache::actors {
namespace {

/// Clears after a node's goodbye would be certain without the node, and its next process would not
/// know that there may have been some.
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
  show("a", view_of(2, {"a", "b"}, {"b"})); // b's goodbye does not arrive at a.
  settle();
  EXPECT_TRUE(*ask<bool>(nodes["a"].clearing, leave_atom_v, from_here{}));
  EXPECT_EQ(nodes["a"].noted.names(), "b") << "it goes on, for all that is known";
  EXPECT_TRUE(*ask<bool>(nodes["b"].clearing, leave_atom_v, from_here{}));
  EXPECT_EQ(nodes["b"].noted.names(), "") << "a has answered that it leaves";
}

/// Nodes that are stopped at the same time drain each at its own pace: b still drains when a
/// leaves.
TEST_F(clearing_test, those_who_are_about_to_leave_are_not_left_behind) {
  for (const auto* name : {"a", "b", "c"})
    start(name);
  show_all(view_of(1, {"a", "b", "c"}));
  nodes["b"].store->holds_clears = true; // b's disk has stopped.
  caf::anon_send(nodes["b"].clearing, drain_atom_v, from_here{});
  show("b", view_of(2, {"a", "b"}));
  settle();
  EXPECT_TRUE(*ask<bool>(nodes["a"].clearing, leave_atom_v, from_here{}));
  EXPECT_EQ(nodes["a"].noted.names(), "c");
  const auto report = clear("b");
  EXPECT_FALSE(report.certain) << "a would not know of it";
  EXPECT_NE(report.why_not.find("being stopped"), std::string::npos) << report.why_not;
}

/// The other nodes do not wait at their clears for a node that has left.
TEST_F(clearing_test, a_node_that_left_shows_no_page_to_anybody_whatever_it_hears_later) {
  start("a");
  show_all(view_of(1, {"a"}));
  nodes["a"].withdrawals.waits = true;
  const auto held = begin_clear("a");
  start("b");
  show("b", view_of(2, {"a", "b"}));
  // Node a cannot tell b anything, except in answer to b's questions.
  show("a", view_of(2, {"a", "b"}, {"b"}));
  settle();
  ASSERT_TRUE(nodes["b"].closed()) << "a answers when its pool has withdrawn what is older";
  caf::anon_send(nodes["a"].pool, beat_atom_v, from_here{}); // Node a's answer to b is on its way
                                                             // now.
  auto leaving = self->request(nodes["b"].clearing, caf::infinite, leave_atom_v,
                               from_here{}); // Node b leaves before a's answer arrives.
  settle();
  leaving.receive([](bool) {}, [](const caf::error&) { ADD_FAILURE(); });
  EXPECT_FALSE(nodes["b"].caught_up);
  EXPECT_TRUE(nodes["b"].closed());
}

} // namespace
} // namespace peercache::actors
