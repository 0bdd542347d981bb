// Tests of clears among several nodes, on the test's own thread. A node has only a clearing actor
// and a gateway.

#include "tests/actors/clearing/clearing_rig.hpp"

namespace peercache::actors {
namespace {

using namespace std::chrono_literals;

TEST_F(clearing_test, a_clear_is_certain_when_all_members_have_confirmed_it) {
  for (const auto* name : {"a", "b", "c"})
    start(name);
  show_all(view_of(1, {"a", "b", "c"}));
  const auto report = clear("a");
  EXPECT_TRUE(report.certain) << report.why_not;
  EXPECT_EQ(report.why_not, "");
  for (const auto* name : {"a", "b", "c"}) {
    EXPECT_EQ(nodes[name].epoch(), report.epoch) << name;
    EXPECT_GE(nodes[name].withdrawals.asked, 1u) << name;
  }
}

TEST_F(clearing_test, a_node_confirms_when_its_pool_has_withdrawn_what_is_older) {
  start("a");
  start("b");
  show_all(view_of(1, {"a", "b"}));
  nodes["b"].withdrawals.waits = true;
  auto answer = begin_clear("a", 5000ms);
  pass(300ms);
  EXPECT_FALSE(answer());
  EXPECT_GT(nodes["b"].epoch(), 0u) << "it holds for clients there at once";
  caf::anon_send(nodes["b"].pool, beat_atom_v, from_here{});
  settle();
  const auto report = answer();
  ASSERT_TRUE(report);
  EXPECT_TRUE(report->certain);
}

/// While b's pool has not withdrawn the pages of a's clear, a message of b about its own clear must
/// not confirm a's.
TEST_F(clearing_test, what_a_node_tells_before_its_pool_has_withdrawn_confirms_nothing) {
  start("a");
  start("b");
  show_all(view_of(1, {"a", "b"}));
  nodes["b"].withdrawals.waits = true;
  show("b", view_of(1, {"a", "b"}, {"a"}));
  auto answer = begin_clear("a", 5000ms);
  caf::anon_send(nodes["b"].gateway, clear_atom_v, space_named("qwen").value, std::uint32_t{5000},
                 std::string{});
  settle();
  show("b", view_of(1, {"a", "b"})); // Only with a view b knows whom to tell.
  settle();
  for (int beats = 0; beats < 5; ++beats)
    pass(100ms);
  EXPECT_FALSE(answer());
  nodes["b"].withdrawals.waits = false;
  caf::anon_send(nodes["b"].pool, beat_atom_v, from_here{});
  settle();
  pass(200ms);
  const auto report = answer();
  ASSERT_TRUE(report);
  EXPECT_TRUE(report->certain) << report->why_not;
}

TEST_F(clearing_test, the_nodes_own_pool_has_to_have_withdrawn_it_too) {
  start("a");
  show_all(view_of(1, {"a"}));
  nodes["a"].withdrawals.waits = true;
  auto answer = begin_clear("a", 1000ms);
  EXPECT_FALSE(answer());
  pass(1100ms);
  const auto report = answer();
  ASSERT_TRUE(report);
  EXPECT_FALSE(report->certain);
  EXPECT_NE(report->why_not.find("being withdrawn"), std::string::npos);
}

TEST_F(clearing_test, a_member_that_is_silent_is_named) {
  for (const auto* name : {"a", "b", "c"})
    start(name);
  show_all(view_of(1, {"a", "b", "c"}));
  // Node c does not confirm the clear yet: its fake pool holds back the answer that the cleared
  // pages are withdrawn from the directory.
  nodes["c"].withdrawals.waits = true;
  const auto report = clear("a");
  EXPECT_FALSE(report.certain);
  EXPECT_EQ(report.unaware, strings{"c"});
  EXPECT_NE(report.why_not.find("c did not confirm"), std::string::npos) << report.why_not;
  caf::anon_send(nodes["c"].pool, beat_atom_v, from_here{});
  nodes["c"].withdrawals.waits = false;
  settle();
  EXPECT_TRUE(clear("a").certain);
}

TEST_F(clearing_test, a_member_that_was_out_of_reach_hears_of_it_when_it_is_back) {
  start("a");
  start("b");
  show_all(view_of(1, {"a", "b"}));
  show("a", view_of(1, {"a", "b"}, {"b"}));
  settle();
  EXPECT_EQ(clear("a").unaware, strings{"b"});
  EXPECT_EQ(nodes["b"].epoch(), 0u);
  show("a", view_of(1, {"a", "b"}));
  settle();
  EXPECT_EQ(nodes["b"].epoch(), nodes["a"].epoch());
}

TEST_F(clearing_test, a_former_member_that_may_live_is_named_until_it_is_back) {
  start("a");
  start("b");
  show_all(view_of(1, {"a", "b"}));
  show("a", view_of(2, {"a"}));
  settle();
  auto report = clear("a");
  EXPECT_FALSE(report.certain);
  EXPECT_EQ(report.missing, strings{"b"});
  EXPECT_EQ(nodes["b"].epoch(), 0u) << "its clients read pages of before";
  show_all(view_of(3, {"a", "b"}));
  EXPECT_EQ(nodes["b"].epoch(), nodes["a"].epoch()) << "told as soon as it is back";
  EXPECT_TRUE(clear("a").certain);
}

TEST_F(clearing_test, an_operator_names_what_is_gone_for_good) {
  for (const auto* name : {"a", "b", "c"})
    start(name);
  show_all(view_of(1, {"a", "b", "c"}));
  kill(nodes["b"]);
  kill(nodes["c"]);
  show("a", view_of(2, {"a"}));
  settle();
  EXPECT_EQ(clear("a", "b\n").missing, strings{"c"});
  EXPECT_TRUE(clear("a", "b\nc").certain);
  EXPECT_TRUE(clear("a").certain) << "it is remembered";
}

TEST_F(clearing_test, who_leaves_in_good_order_is_not_waited_for) {
  start("a");
  start("b");
  show_all(view_of(1, {"a", "b"}));
  EXPECT_TRUE(ask<bool>(nodes["b"].clearing, leave_atom_v, from_here{}));
  EXPECT_TRUE(nodes["b"].closed()) << "no client of its host reads its pool any longer";
  show("a", view_of(2, {"a"}));
  settle();
  const auto report = clear("a");
  EXPECT_TRUE(report.certain) << report.why_not;
  EXPECT_EQ(nodes["b"].epoch(), 0u);
}

TEST_F(clearing_test, a_node_that_starts_has_caught_up_when_a_member_has_told_it) {
  start("a");
  show_all(view_of(1, {"a"}));
  EXPECT_TRUE(nodes["a"].caught_up);
  clear("a");
  start("b");
  const auto both = view_of(2, {"a", "b"});
  show("b", both);
  settle();
  EXPECT_FALSE(nodes["b"].caught_up) << "a would not ask it yet when it clears";
  show("a", both);
  settle();
  EXPECT_TRUE(nodes["b"].caught_up);
  EXPECT_EQ(nodes["b"].epoch(), nodes["a"].epoch());
}

/// Node b, which joins, has caught up by node c before c heard of the clear. A clear that did not
/// wait for b would look certain while b serves old pages.
TEST_F(clearing_test, a_clear_during_a_join_waits_for_the_one_that_joins) {
  for (const auto* name : {"a", "b", "c"})
    start(name);
  show("a", view_of(1, {"a", "c"}));
  show("c", view_of(1, {"a", "c"}));
  settle();
  const auto all = view_of(2, {"a", "b", "c"});
  show("c", all);
  show("b", all);
  settle();
  EXPECT_TRUE(nodes["b"].caught_up);
  auto answer = begin_clear("a", 2000ms);
  pass(200ms);
  EXPECT_FALSE(answer()) << "c knows a member that a does not know";
  show("a", all);
  settle();
  pass(200ms);
  const auto report = answer();
  ASSERT_TRUE(report);
  EXPECT_TRUE(report->certain) << report->why_not;
  EXPECT_EQ(nodes["b"].epoch(), report->epoch);
}

TEST_F(clearing_test, what_was_cleared_comes_back_with_the_disks_of_a_cluster_that_restarts) {
  start("a");
  start("b");
  show_all(view_of(1, {"a", "b"}));
  const auto epoch = clear("a").epoch;
  const auto disk = nodes["b"].store->cleared;
  for (const auto* name : {"a", "b"})
    kill(nodes[name]);
  start("b", disk);
  show_all(view_of(1, {"b"}));
  EXPECT_TRUE(nodes["b"].caught_up);
  EXPECT_EQ(nodes["b"].epoch(), epoch);
  EXPECT_EQ(clear("b").missing, strings{"a"}) << "it may live, and it was a member";
}

TEST_F(clearing_test, a_node_that_cannot_remember_it_makes_it_uncertain) {
  start("a");
  start("b");
  show_all(view_of(1, {"a", "b"}));
  nodes["b"].store->why_not_kept = "no space left";
  EXPECT_EQ(clear("a").unaware, strings{"b"});
  const auto report = clear("b");
  EXPECT_FALSE(report.certain);
  EXPECT_NE(report.why_not.find("no space left"), std::string::npos) << report.why_not;
  nodes["b"].store->why_not_kept.clear();
  EXPECT_TRUE(clear("a").certain);
}

/// A joining node must catch up even if the disk of the node that it asks hangs: else nodes could
/// not start while one disk hangs.
TEST_F(clearing_test, a_disk_that_hangs_keeps_nobody_from_catching_up) {
  start("a");
  show_all(view_of(1, {"a"}));
  nodes["a"].store->holds_clears = true;
  start("b");
  show_all(view_of(2, {"a", "b"}));
  pass(200ms);
  EXPECT_TRUE(nodes["b"].caught_up);
  EXPECT_EQ(clear("b").unaware, strings{"a"}) << "it might forget it";
  EXPECT_FALSE(clear("a").certain);
}

TEST_F(clearing_test, a_node_without_a_view_clears_for_its_own_clients_only_and_says_so) {
  start("a");
  const auto report = clear("a");
  EXPECT_FALSE(report.certain);
  EXPECT_NE(report.why_not.find("no view"), std::string::npos);
  EXPECT_EQ(nodes["a"].epoch(), report.epoch);
}

TEST_F(clearing_test, a_page_that_a_cut_off_half_has_set_is_older_than_a_later_clear_elsewhere) {
  start("a");
  start("b");
  show_all(view_of(1, {"a", "b"}));
  show("a", view_of(2, {"a"}));
  show("b", view_of(2, {"b"}));
  settle();
  // Raises the epoch of the space in b's half: pages that are set there have this epoch from now
  // on.
  const auto there = clear("b").epoch;
  ++clock_s;
  const auto here = clear("a").epoch;
  EXPECT_GT(here, there);
  show_all(view_of(3, {"a", "b"}));
  EXPECT_EQ(nodes["b"].epoch(), here);
}

TEST_F(clearing_test, two_clears_at_once_are_both_certain) {
  for (const auto* name : {"a", "b", "c"})
    start(name);
  show_all(view_of(1, {"a", "b", "c"}));
  auto first = begin_clear("a");
  auto second = begin_clear("b");
  pass(300ms);
  const auto one = first();
  const auto other = second();
  ASSERT_TRUE(one && other);
  EXPECT_TRUE(one->certain) << one->why_not;
  EXPECT_TRUE(other->certain) << other->why_not;
}

TEST_F(clearing_test, clears_one_after_another_leave_no_timers_behind) {
  start("a");
  show_all(view_of(1, {"a"}));
  nodes["a"].withdrawals.waits = true;
  for (int i = 0; i < 10; ++i) {
    auto answer = begin_clear("a", 10'000ms);
    EXPECT_FALSE(answer());
    caf::anon_send(nodes["a"].pool, beat_atom_v, from_here{});
    settle();
    EXPECT_TRUE(answer());
  }
  auto open = begin_clear("a", 10'000ms);
  EXPECT_LE(scheduler().clock().advance_time(50ms), 1u);
  settle();
  EXPECT_FALSE(open());
}

TEST_F(clearing_test, a_clear_that_waits_leaves_no_timer_behind_with_each_beat) {
  start("a");
  show_all(view_of(1, {"a"}));
  nodes["a"].withdrawals.waits = true;
  auto open = begin_clear("a", 10'000ms);
  for (int i = 0; i < 20; ++i)
    pass(100ms);
  EXPECT_FALSE(open());
  caf::anon_send(nodes["a"].pool, beat_atom_v, from_here{});
  settle();
  EXPECT_TRUE(open());
  EXPECT_LE(scheduler().clock().advance_time(10'000ms), 3u) << "the beats of the two actors";
}

TEST_F(clearing_test, a_clear_is_answered_when_its_time_is_over_whatever_others_take) {
  start("a");
  show_all(view_of(1, {"a"}));
  nodes["a"].withdrawals.waits = true;
  auto longer = begin_clear("a", 1030ms);
  auto shorter = begin_clear("a", 510ms);
  pass(500ms);
  EXPECT_FALSE(shorter());
  pass(10ms);
  // Both requests are the test's own: the first answer is that of the clear that ends first.
  EXPECT_TRUE(shorter());
  pass(520ms);
  EXPECT_TRUE(longer());
}

TEST_F(clearing_test, counts_clears_and_what_keeps_them_from_being_certain) {
  start("a");
  start("b");
  show_all(view_of(1, {"a", "b"}));
  const auto said = [this] { return ask<node_report>(nodes["a"].gateway, status_atom_v)->samples; };
  ASSERT_TRUE(clear("a").certain);
  EXPECT_EQ(said().count(metric::clears_total, {"certain"}), 1u);
  EXPECT_EQ(said().count(metric::cleared_spaces), 1u);
  EXPECT_EQ(said().count(metric::clear_nodes_missing), 0u);
  show("a", view_of(2, {"a"})); // Node b leaves the view without a goodbye.
  settle();
  ASSERT_FALSE(clear("a").certain);
  EXPECT_EQ(said().count(metric::clears_total, {"certain"}), 1u);
  EXPECT_EQ(said().count(metric::clears_total, {"uncertain"}), 1u);
  EXPECT_EQ(said().count(metric::cleared_spaces), 1u);
  EXPECT_EQ(said().count(metric::clear_nodes_missing), 1u);
}

TEST_F(clearing_test, a_table_is_closed_until_its_node_knows_what_was_cleared) {
  start("a");
  EXPECT_TRUE(nodes["a"].closed());
  show_all(view_of(1, {"a"}));
  EXPECT_FALSE(nodes["a"].closed()) << "it is alone";
  clear("a");
  start("b");
  const auto both = view_of(2, {"a", "b"});
  show("b", both);
  settle();
  EXPECT_TRUE(nodes["b"].closed()) << "it is a member, and a would not ask it yet when it clears";
  show("a", both);
  settle();
  EXPECT_FALSE(nodes["b"].closed());
}

class left_behind_clearing_test : public clearing_test {
protected:
  /// Starts two nodes, of which "a" leaves in good order while "b" goes on.
  void leave_b_behind() {
    start("a");
    start("b");
    show_all(view_of(1, {"a", "b"}));
    EXPECT_TRUE(*ask<bool>(nodes["a"].clearing, leave_atom_v, from_here{}));
    show("b", view_of(2, {"b"}));
    settle();
  }
};

TEST_F(left_behind_clearing_test,
       a_node_that_left_finds_no_page_before_it_knows_what_was_cleared_since) {
  leave_b_behind();
  EXPECT_TRUE(clear("b").certain);
  EXPECT_EQ(nodes["a"].noted.names(), "b");
  kill(nodes["a"]);
  kill(nodes["b"]);
  start("a", std::string(nodes["a"].kept));
  show_all(view_of(1, {"a"}));
  pass_beats(140);
  EXPECT_FALSE(nodes["a"].caught_up);
  EXPECT_TRUE(nodes["a"].closed());
  EXPECT_EQ(nodes["a"].withdrawals.views, 0u) << "it has told nobody which pages it has";
  EXPECT_EQ(nodes["a"].noted.names(), "b") << "nor does it forget that when it is killed";
  pass_beats(20);
  EXPECT_TRUE(nodes["a"].caught_up);
  EXPECT_GT(nodes["a"].epoch(), 0u) << "its pages are old";
  EXPECT_GT(nodes["a"].withdrawals.asked, 0u) << "and given up";
  EXPECT_GT(nodes["a"].withdrawals.views, 0u);
  EXPECT_EQ(nodes["a"].noted.names(), "");
}

TEST_F(left_behind_clearing_test,
       a_node_that_left_has_caught_up_as_soon_as_one_that_stayed_has_told_it) {
  leave_b_behind();
  const auto epoch = clear("b").epoch;
  kill(nodes["a"]);
  start("a", std::string(nodes["a"].kept));
  show_all(view_of(3, {"a", "b"}));
  EXPECT_TRUE(nodes["a"].caught_up);
  EXPECT_EQ(nodes["a"].epoch(), epoch);
  EXPECT_GT(nodes["a"].withdrawals.views, 0u);
}

} // namespace
} // namespace peercache::actors
